// SPDX-License-Identifier: Apache-2.0
// A URL, then lines NAME=VALUE as the environment of a launched process: what is accepted is a URL
// that is accepted again with the same meaning.
#include <map>

#include "client/internal/url.h"
#include "protocol/limits.h"
#include "store/redis/commands.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

namespace {

void check_url(std::string_view text) {
  const auto url = c10dd::client::parse_url(text);
  if (!url) {
    C10DD_ASSERT(!url.error().detail.empty());
    return;
  }
  C10DD_ASSERT(!url->daemons.empty() && url->daemons.size() <= c10dd::client::kDaemonsInUrl);
  for (const auto& daemon : url->daemons) C10DD_ASSERT(!daemon.host.empty() && daemon.port != 0);
  C10DD_ASSERT(!url->job.empty());
  const auto again = c10dd::client::parse_url(url->text());
  C10DD_ASSERT(again && again->daemons == url->daemons && again->job == url->job);
}

}  // namespace

C10DD_FUZZ(client_url) {
  std::string_view rest = c10dd::fuzz::Input(data, size).rest();
  const auto line = [&rest] {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    return text;
  };
  const std::string_view text = line();
  check_url(text);
  if (const auto redis = c10dd::store::parse_redis_address(text)) {
    C10DD_ASSERT(!redis->host.empty() && !redis->prefix.empty() && redis->port != 0);
  }
  std::map<std::string, std::string> variables;
  while (!rest.empty()) {
    const std::string_view setting = line();
    const std::size_t equals = setting.find('=');
    if (equals == setting.npos) continue;
    // As the environment has it: up to the first zero byte.
    variables[std::string(setting.substr(0, equals))] =
        std::string(setting.substr(equals + 1)).c_str();
  }
  const auto launch = c10dd::client::read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  if (!launch) return 0;
  check_url(launch->url);
  C10DD_ASSERT(c10dd::client::parse_url(launch->url).has_value());
  C10DD_ASSERT(launch->options.rank >= -1 && launch->options.rank < c10dd::limits::kWorldSize);
  return 0;
}
