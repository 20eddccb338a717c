// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/event_log.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {

std::optional<std::uint64_t> LogPace::next(Time now) {
  if (!begin_ || now - *begin_ >= std::chrono::seconds(1)) {
    begin_ = now;
    lines_ = 0;
  }
  if (lines_ == kLines) {
    ++skipped_;
    return std::nullopt;
  }
  ++lines_;
  return std::exchange(skipped_, 0);
}

void EventLog::write(const std::string& job, const std::string& run, const core::Event& event) {
  const auto name = [](const std::string& group) { return printable(group, limits::kNameBytes); };
  if (const auto* timed_out = std::get_if<core::BarrierTimedOut>(&event)) {
    spdlog::warn("event=barrier_timed_out job={} detail={}", job, quoted_text(timed_out->detail));
  } else if (const auto* contested = std::get_if<core::RankContested>(&event)) {
    spdlog::warn("event={} job={} detail={}", contested->what, job, quoted_text(contested->detail));
  } else if (const auto* formed = std::get_if<core::GenerationFormed>(&event)) {
    spdlog::info("event=generation_formed job={} group={} generation={} size={} reason={}", job,
                 name(formed->group), formed->generation, formed->size,
                 quoted_text(formed->reason));
  } else if (const auto* ended = std::get_if<core::GenerationEnded>(&event)) {
    spdlog::warn("event=generation_ended job={} group={} generation={} reason={}", job,
                 name(ended->group), ended->generation, quoted_text(ended->reason));
  } else if (const auto* stalled = std::get_if<core::MembersStalled>(&event)) {
    spdlog::warn("event=member_stalled job={} group={} generation={} ranks={} detail={}", job,
                 name(stalled->group), stalled->generation, stalled->ranks,
                 quoted_text(stalled->detail));
  } else if (const auto* refused = std::get_if<core::RankRefused>(&event)) {
    write_refusal(job, *refused);
  } else if (const auto* wait = std::get_if<core::WaitGivenUp>(&event)) {
    write_given_up(job, run, *wait);
  }
}

void EventLog::write_given_up(const std::string& job, const std::string& run,
                              const core::WaitGivenUp& wait) {
  const auto skipped = given_up_.next(std::chrono::steady_clock::now());
  if (!skipped) return;
  spdlog::warn(
      "event=wait_given_up job={} run={} peer={} pid={} cause={} seconds={:.1f} ranks={} others={} "
      "folded={} skipped={} detail={}",
      job, printable(run, limits::kNameBytes), printable(wait.peer, limits::kNameBytes), wait.pid,
      wait.cause, seconds_of(wait.blocked), wait.ranks, wait.others, wait.folded, *skipped,
      quoted_text(printable(wait.detail, 1024)));
}

void EventLog::write_refusal(const std::string& job, const core::RankRefused& refused) {
  const auto skipped = refusals_.next(std::chrono::steady_clock::now());
  if (!skipped) return;
  const OpInfo* op = find_op(refused.op);
  spdlog::warn("event={} job={} op={} code={} skipped={} detail={}",
               refused.code == Code::rank_taken ? "rank_taken" : "join_refused", job,
               op ? op->name : "unknown", name_of(refused.code), *skipped,
               quoted_text(printable(refused.detail, 1024)));
}

void log_checkpoint(const std::string& path, const Result<void>& done) {
  const std::string shown = quoted_text(printable(path, 1024));
  if (!done) {
    return spdlog::warn("event=checkpoint_refused path={} code={} detail={}", shown,
                        name_of(done.error().code),
                        quoted_text(printable(done.error().detail, 1024)));
  }
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (std::filesystem::recursive_directory_iterator at(path, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->is_regular_file(failed)) bytes += at->file_size(failed);
  }
  spdlog::info("event=checkpoint_written path={} bytes={}", shown, bytes);
}

}  // namespace c10dd::daemon
