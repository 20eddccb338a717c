// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/refusal_log.h"

#include <chrono>
#include <string>

#include "daemon/shard/event_log.h"
#include "daemon/shard/log_line.h"
#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kLoggedBytes = 512;

}  // namespace

void log_refused(std::string_view protocol, std::string_view peer, const Failure& reason) {
  thread_local LogPace pace;  // of the loop
  const auto skipped = pace.next(std::chrono::steady_clock::now());
  if (!skipped) return;
  log_warn("event=refused{} peer={} code={} detail={}{}", OptionalField{"protocol", protocol}, peer,
           name_of(reason.code), Sentence{printable(reason.detail, kLoggedBytes)},
           OptionalField{"skipped", *skipped == 0 ? "" : std::to_string(*skipped)});
}

}  // namespace c10dd::daemon
