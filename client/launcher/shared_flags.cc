// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/shared_flags.h"

#include <unistd.h>

#include <sstream>

#include "client/errors.h"
#include "client/launcher/address.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::run {
namespace {

const std::string kPrefix = "c10drun/nodes/";

}  // namespace

SharedFlags shared_flags(const Options& options) {
  const std::string most = std::to_string(options.max_nodes);
  const bool range = options.min_nodes < options.max_nodes;
  return {{"--nnodes", range ? std::to_string(options.min_nodes) + ":" + most : most},
          {"--last-call", human(options.last_call)}};
}

std::string encode(const SharedFlags& flags) {
  std::string text;
  for (const auto& [flag, value] : flags) text.append(flag).append("=").append(value).append("\n");
  return text;
}

SharedFlags decode_flags(const std::string& text) {
  SharedFlags flags;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) flags[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return flags;
}

std::string difference(const SharedFlags& here, const SharedFlags& there,
                       const std::string& where) {
  std::string text;
  for (const auto& [flag, value] : here) {
    const auto other = there.find(flag);
    if (other == there.end() || other->second == value) continue;
    text.append(text.empty() ? "" : ", and ");
    text.append(format("{} is {} here and {} on {}", flag, value, other->second, where));
  }
  return text;
}

void publish(JobStore& store, const SharedFlags& flags) {
  const std::string key = format("{}{} (pid {})", kPrefix, host_name(), getpid());
  try {
    store.set(key, encode(flags), {.ephemeral = true});
  } catch (const Error&) {
  }
}

std::vector<std::string> agents(JobStore& store) {
  std::vector<std::string> names;
  try {
    for (const std::string& key : store.list(kPrefix)) names.push_back(key.substr(kPrefix.size()));
  } catch (const Error&) {
  }
  return names;
}

std::string disagreement(JobStore& store, const SharedFlags& flags) {
  for (const std::string& key : store.list(kPrefix)) {
    const SharedFlags there = decode_flags(store.get(key, std::chrono::seconds(1)));
    std::string text = difference(flags, there, key.substr(kPrefix.size()));
    if (!text.empty()) return text;
  }
  return {};
}

}  // namespace c10dd::run
