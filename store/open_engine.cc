// SPDX-License-Identifier: Apache-2.0
// The list of engines: scheme, form of the URL, how to open one.
#include <string>

#include "store/engines.h"

#ifndef C10DD_WITH_ROCKSDB
#define C10DD_WITH_ROCKSDB 1
#endif
#ifndef C10DD_WITH_REDIS
#define C10DD_WITH_REDIS 1
#endif

namespace c10dd::store {
namespace {

using Open = Result<std::unique_ptr<Engine>>(std::string_view rest, const OpenOptions& options);

struct Scheme {
  std::string_view name;
  std::string_view form;
  std::string_view build_option;
  Open* open;  ///< null when the build left it out
};

constexpr Scheme kSchemes[] = {
    {"memory", "memory:", "", open_memory_engine},
#if C10DD_WITH_ROCKSDB
    {"rocksdb", "rocksdb:/path", "C10DD_WITH_ROCKSDB", open_rocks_engine},
#else
    {"rocksdb", "rocksdb:/path", "C10DD_WITH_ROCKSDB", nullptr},
#endif
#if C10DD_WITH_REDIS
    {"redis", "redis://host:port[/prefix]", "C10DD_WITH_REDIS", open_redis_engine},
#else
    {"redis", "redis://host:port[/prefix]", "C10DD_WITH_REDIS", nullptr},
#endif
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

Result<std::unique_ptr<Engine>> open_engine(std::string_view url, const OpenOptions& options) {
  const std::size_t colon = url.find(':');
  for (const Scheme& scheme : kSchemes) {
    if (colon == std::string_view::npos || url.substr(0, colon) != scheme.name) continue;
    if (!scheme.open) {
      return failure(Code::unsupported, "engine: " + std::string(scheme.name) +
                                            " is not part of this build; build with " +
                                            std::string(scheme.build_option) + "=ON");
    }
    return scheme.open(url.substr(colon + 1), options);
  }
  return failure(Code::invalid_argument,
                 "engine: no engine for \"" + std::string(url) + "\"; known are " + known_forms());
}

}  // namespace c10dd::store
