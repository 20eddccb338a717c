// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/event_log.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/shard/caused_log.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

/// Returns the hosts as a list, such as "[node1,node2]". Names at most limits::kMissingNamed hosts;
/// ",..." stands for the others.
std::string host_list(const std::vector<std::string>& hosts) {
  std::string text = "[";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i > 0) text += ",";
    if (i == limits::kMissingNamed) {
      text += "...";
      break;
    }
    text += printable_name(hosts[i]);
  }
  return text + "]";
}

void write_given_up(const std::string& cause, const std::string& job, const std::string& run,
                    const core::WaitGivenUp& wait) {
  log_caused(cause, LogLevel::warn,
             "event=wait_given_up job={} run={} peer={} pid={} cause={} seconds={:.1f} ranks={} "
             "others={} folded={} detail={}",
             job, run, wait.peer, wait.pid == 0 ? "unknown" : std::to_string(wait.pid), wait.cause,
             seconds_of(wait.blocked), wait.ranks, wait.others, wait.folded,
             Sentence{printable(wait.detail, 1024)});
}

void write_refusal(const std::string& cause, const std::string& job,
                   const core::RankRefused& refused) {
  const OpInfo* op = find_op(refused.op);
  log_caused(cause, LogLevel::warn, "event={} job={} op={} code={} detail={}",
             refused.code == Code::rank_taken ? "rank_taken" : "join_refused", job,
             op ? op->name : std::string_view("unknown"), name_of(refused.code),
             Sentence{printable(refused.detail, 1024)});
}

}  // namespace

void EventLog::write(const std::string& cause, const std::string& job, const std::string& run,
                     const core::Event& event) {
  if (const auto* timed_out = std::get_if<core::BarrierTimedOut>(&event)) {
    log_caused(cause, LogLevel::warn, "event=barrier_timed_out job={} detail={}", job,
               Sentence{timed_out->detail});
  } else if (const auto* contested = std::get_if<core::RankContested>(&event)) {
    log_caused(cause, LogLevel::warn, "event={} job={} detail={}", contested->what, job,
               Sentence{contested->detail});
  } else if (const auto* formed = std::get_if<core::GenerationFormed>(&event)) {
    log_caused(cause, LogLevel::info,
               "event=generation_formed job={} group={} generation={} size={} reason={}", job,
               formed->group, formed->generation, formed->size, Sentence{formed->reason});
  } else if (const auto* ended = std::get_if<core::GenerationEnded>(&event)) {
    log_caused(cause, LogLevel::warn,
               "event=generation_ended job={} group={} generation={} reason={}", job, ended->group,
               ended->generation, Sentence{ended->reason});
  } else if (const auto* stalled = std::get_if<core::MembersStalled>(&event)) {
    log_caused(cause, LogLevel::warn,
               "event=member_stalled job={} group={} generation={} ranks={} detail={}", job,
               stalled->group, stalled->generation, stalled->ranks, Sentence{stalled->detail});
  } else if (const auto* refused = std::get_if<core::RankRefused>(&event)) {
    write_refusal(cause, job, *refused);
  } else if (const auto* wait = std::get_if<core::WaitGivenUp>(&event)) {
    write_given_up(cause, job, run, *wait);
  } else if (const auto* diagnosed = std::get_if<core::Diagnosed>(&event)) {
    write_diagnosis(cause, job, run, *diagnosed);
  } else if (const auto* over = std::get_if<core::DiagnosisEnded>(&event)) {
    write_end_of_diagnosis(cause, job, run, *over);
  }
}

void EventLog::write_diagnosis(const std::string& cause, const std::string& job,
                               const std::string& run, const core::Diagnosed& diagnosed) {
  const Diagnosis& is = diagnosed.diagnosis;
  const auto folded = diagnoses_.next({job, run, is.kind}, is.state,
                                      std::chrono::steady_clock::now(), is.ranks, is.sentence);
  if (!folded) return;
  // Ranks come one after the other at each start of a job: to wait is no warning.
  const bool stuck = is.state == Diagnosis::State::stuck;
  log_caused(cause, stuck ? LogLevel::warn : LogLevel::info,
             "event=diagnosis job={} run={} state={} kind={} seconds={:.1f} waiting={} ranks={} "
             "hosts={}{} "
             "detail={}",
             job, run, name_of(is.state), name_of(is.kind), seconds_of(diagnosed.age), is.waiting,
             fold(is.ranks), host_list(is.hosts),
             OptionalField{"folded", *folded == 0 ? "" : std::to_string(*folded)},
             Sentence{is.sentence});
}

void EventLog::write_end_of_diagnosis(const std::string& cause, const std::string& job,
                                      const std::string& run, const core::DiagnosisEnded& ended) {
  if (!diagnoses_.ended({job, run, ended.kind})) return;
  log_caused(cause, LogLevel::info, "event=diagnosis_over job={} run={} kind={} seconds={:.1f}",
             job, run, name_of(ended.kind), seconds_of(ended.lasted));
}

void log_checkpoint(const std::string& path, const Result<void>& done) {
  const std::string cut = printable(path, 1024);
  const Sentence shown{cut};
  if (!done) {
    return log_caused("", LogLevel::warn, "event=checkpoint_refused path={} code={} detail={}",
                      shown, name_of(done.error().code),
                      Sentence{printable(done.error().detail, 1024)});
  }
  std::uint64_t bytes = 0;
  std::error_code failed;
  for (std::filesystem::recursive_directory_iterator at(path, failed), end; !failed && at != end;
       at.increment(failed)) {
    if (at->is_regular_file(failed)) bytes += at->file_size(failed);
  }
  log_caused("", LogLevel::info, "event=checkpoint_written path={} bytes={}", shown, bytes);
}

}  // namespace c10dd::daemon
