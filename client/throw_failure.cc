// SPDX-License-Identifier: Apache-2.0
// Which failure becomes which exception.
#include "client/throw_failure.h"

#include <iterator>

#include "client/errors.h"

namespace c10dd::client {
namespace {

std::string name_of_cause(MissingRank::Cause cause) {
  static constexpr const char* kNames[] = {"never_connected", "not_arrived", "disconnected",
                                           "elsewhere",       "silent",      "dead"};
  const auto index = static_cast<std::size_t>(cause);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // namespace

void throw_failure(const Failure& reason) {
  switch (reason.code) {
    case Code::timed_out: {
      std::vector<Missing> missing;
      for (const MissingRank& m : reason.missing) {
        missing.push_back({m.rank, m.host, name_of_cause(m.cause)});
      }
      throw TimedOut(reason.detail, std::move(missing));
    }
    case Code::not_found:
      throw NotFound(reason.detail);
    case Code::invalid_argument:
      throw InvalidArgument(reason.detail);
    case Code::state_rolled_back:
      throw StateRolledBack(reason.detail);
    case Code::aborted:
      throw Aborted(reason.detail);
    default:
      throw Error(reason.code, reason.detail);
  }
}

}  // namespace c10dd::client
