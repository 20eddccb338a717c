// SPDX-License-Identifier: Apache-2.0
// Lists the engines: for each, the URL scheme, the form of the URL, and the function that opens the
// engine.
#include <string>

#include "protocol/random.h"
#include "store/engines.h"
#include "store/fleet.h"
#include "store/server_watch.h"

#ifndef C10DD_WITH_ROCKSDB
#define C10DD_WITH_ROCKSDB 1
#endif
#ifndef C10DD_WITH_REDIS
#define C10DD_WITH_REDIS 1
#endif
#ifndef C10DD_WITH_TLS
#define C10DD_WITH_TLS 1
#endif

namespace c10dd::store {
namespace {

using Open = Result<std::unique_ptr<Engine>>(std::string_view text, const OpenOptions& options);

struct Scheme {
  std::string_view name;
  std::string_view form;
  std::string_view build_option;
  Open* open;              ///< null if the build does not have the engine
  bool whole_url = false;  ///< `open` needs the scheme, too
};

constexpr std::string_view kRedisForm = "redis://[[user]:password@]host:port[/prefix]";
constexpr std::string_view kSentinelForm =
    "redis+sentinel://[[user]:password@]host:port[,host:port...]/master[/prefix]";

#if C10DD_WITH_REDIS
constexpr Open* kOpenRedis = open_redis_engine;
#else
constexpr Open* kOpenRedis = nullptr;
#endif
constexpr Open* kOpenRediss = C10DD_WITH_TLS ? kOpenRedis : nullptr;
constexpr std::string_view kTlsOption = C10DD_WITH_TLS ? "C10DD_WITH_REDIS" : "C10DD_WITH_TLS";

constexpr Scheme kSchemes[] = {
    {"memory", "memory:", "", open_memory_engine},
#if C10DD_WITH_ROCKSDB
    {"rocksdb", "rocksdb:/path", "C10DD_WITH_ROCKSDB", open_rocks_engine},
#else
    {"rocksdb", "rocksdb:/path", "C10DD_WITH_ROCKSDB", nullptr},
#endif
    {"redis", kRedisForm, "C10DD_WITH_REDIS", kOpenRedis, true},
    {"redis+sentinel", kSentinelForm, "C10DD_WITH_REDIS", kOpenRedis, true},
    {"rediss", "rediss://... with TLS", kTlsOption, kOpenRediss, true},
    {"rediss+sentinel", "rediss+sentinel://...", kTlsOption, kOpenRediss, true},
};

std::string known_forms() {
  std::string forms;
  for (const Scheme& scheme : kSchemes) {
    if (!forms.empty()) forms += " | ";
    forms += scheme.form;
  }
  return forms;
}

}  // namespace

std::uint64_t this_process() {
  static const std::uint64_t drawn = random_number();
  return drawn;
}

std::string without_password(std::string_view url) {
  const std::size_t at = url.rfind('@');  // the last @, so that the whole password is hidden
  if (at == std::string_view::npos) return std::string(url);
  std::size_t begin = url.find(':') + 1;  // 0 if there is no colon
  while (begin < at && url[begin] == '/') ++begin;
  if (begin > at) begin = 0;
  return std::string(url.substr(0, begin)).append("***").append(url.substr(at));
}

Result<std::unique_ptr<Engine>> open_engine(std::string_view url, const OpenOptions& options) {
  const std::size_t colon = url.find(':');
  for (const Scheme& scheme : kSchemes) {
    if (colon == std::string_view::npos || url.substr(0, colon) != scheme.name) continue;
    if (!scheme.open) {
      return failure(Code::unsupported, "engine: {} is not part of this build; build with {}=ON",
                     scheme.name, scheme.build_option);
    }
    return scheme.open(scheme.whole_url ? url : url.substr(colon + 1), options);
  }
  return failure(Code::invalid_argument, "engine: unknown engine \"{}\"; use {}",
                 without_password(url), known_forms());
}

namespace {

[[maybe_unused]] bool is_redis(std::string_view url) {
  const std::string_view scheme = url.substr(0, url.find(':'));
  return scheme == "redis" || scheme == "redis+sentinel" ||
         (C10DD_WITH_TLS && (scheme == "rediss" || scheme == "rediss+sentinel"));
}

}  // namespace

Result<std::unique_ptr<Fleet>> open_fleet(std::string_view url, [[maybe_unused]] Duration patience,
                                          [[maybe_unused]] std::string_view ca_file) {
#if C10DD_WITH_REDIS
  if (is_redis(url)) {
    return open_redis_fleet(url, std::min<Duration>(patience, std::chrono::seconds(2)), ca_file);
  }
#endif
  return failure(Code::unsupported, "engine {} cannot be shared by several daemons",
                 without_password(url));
}

std::unique_ptr<ServerWatch> watch_server([[maybe_unused]] std::string_view url,
                                          [[maybe_unused]] std::string_view ca_file) {
#if C10DD_WITH_REDIS
  if (is_redis(url)) return watch_redis_server(url, ca_file);
#endif
  return nullptr;
}

}  // namespace c10dd::store
