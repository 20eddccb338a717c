// SPDX-License-Identifier: Apache-2.0
// The list of the servers that can keep a store: for each, the scheme and form of its URL, and its
// module.
#include <algorithm>
#include <string_view>

#include "client/internal/throw_failure.h"
#include "client/stores/remote_store.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::client {
namespace {

struct Scheme {
  const char* name;
  const char* form;
  const char* remedy;  ///< ends the text if the module is missing
  std::uint16_t port;  ///< if the URL has none
  bool logs_in;        ///< the URL may have a user and a password
  bool has_job;        ///< the path is the name of a job; otherwise it may be any prefix
};

constexpr Scheme kSchemes[] = {
    {"redis", "redis://[[user]:password@]host:port/job",
     "; it needs the package libhiredis0.14, and a c10dd that was built with libhiredis", 6379,
     true, true},
    {"etcd", "etcd://host:port/job", "; it needs the package libboost-json1.81.0", 2379, false,
     true},
    {"tcp", "tcp://host:port[/prefix]", "; it is part of every build of c10dd", 29500, false,
     false},
};

const Scheme* scheme_of(std::string_view url) {
  const std::string_view name = url.substr(0, url.find(':'));
  const auto* const found = std::ranges::find(
      kSchemes, name, [](const Scheme& one) { return std::string_view(one.name); });
  return found != std::end(kSchemes) && name.size() < url.size() ? found : nullptr;
}

/// Returns the failure for a URL. The text does not quote the URL, which may contain a password.
Failure refused(const Scheme& scheme, const std::string& why) {
  return failure(Code::invalid_argument, "invalid {} store URL: {}; expected {}", scheme.name, why,
                 scheme.form);
}

Result<ServerUrl> parse(const Scheme& scheme, std::string_view text) {
  Result<ServerUrl> url = parse_server_url(text.substr(std::string_view(scheme.name).size() + 1));
  if (!url) return refused(scheme, url.error().detail);
  if (url->port == 0) url->port = scheme.port;
  if (!scheme.logs_in && !url->password.empty()) {
    return refused(scheme, "it has a user or password, but this store cannot log in; remove them");
  }
  if (!scheme.has_job) {
    if (url->path.find_first_of("?#") == std::string::npos) return url;
    return refused(scheme, "the prefix has a ? or #");
  }
  if (url->path.empty()) return refused(scheme, "the job is missing");
  if (url->path.size() > limits::kNameBytes) {
    return refused(scheme, format("the job's name has {} bytes, limit {}", url->path.size(),
                                  limits::kNameBytes));
  }
  // A brace would end the name within the keys of Redis.
  if (url->path.find_first_of("/?#{}") != std::string::npos ||
      printable(url->path, url->path.size()) != url->path) {
    return refused(scheme, "the job's name has one of / ? # { } or an unprintable character");
  }
  return url;
}

const StoreModule& module_of(const Scheme& scheme) {
  const ModuleKind kind = {.what = "store",
                           .file_prefix = "libc10dd_store_",
                           .symbol = "c10dd_store_module",
                           .path_variable = "C10DD_STORE_PATH",
                           .remedy = scheme.remedy,
                           .abi = kStoreAbi,
                           .setup_bytes = sizeof(StoreSetup)};
  const Result<const ModuleHead*> head = load_module(kind, scheme.name);
  if (!head) throw_failure(head.error());
  return *reinterpret_cast<const StoreModule*>(*head);  // whose first member the head is
}

}  // namespace

bool is_remote_store(const std::string& url) { return scheme_of(url) != nullptr; }

std::shared_ptr<Store> open_remote_store(const std::string& url, Store::Timeout patience) {
  const Scheme& scheme = *scheme_of(url);
  Result<ServerUrl> parsed = parse(scheme, url);
  if (!parsed) throw_failure(parsed.error());
  const StoreModule& module = module_of(scheme);
  auto server = module.open({std::move(*parsed), Clock::now() + patience});
  if (!server) throw_failure(server.error());
  return make_remote_store(std::move(*server));
}

std::string remote_store_forms() {
  std::string forms;
  for (const Scheme& scheme : kSchemes) forms.append(scheme.form).append(", ");
  return forms;
}

}  // namespace c10dd::client
