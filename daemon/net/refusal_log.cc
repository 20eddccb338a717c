// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/refusal_log.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <string>

#include "daemon/shard/event_log.h"
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
  const std::string field = protocol.empty() ? "" : format(" protocol={}", protocol);
  const std::string before = *skipped == 0 ? "" : format(" skipped={}", *skipped);
  spdlog::warn("event=refused{} peer={} code={} detail={}{}", field, peer, name_of(reason.code),
               quoted_text(printable(reason.detail, kLoggedBytes)), before);
}

}  // namespace c10dd::daemon
