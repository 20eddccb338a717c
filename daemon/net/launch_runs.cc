// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/launch_runs.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <system_error>
#include <utility>

#include "daemon/shard/event_log.h"
#include "daemon/shard/log_line.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::string_view kJoinKey = "init/";
constexpr std::chrono::seconds kRestChecked{1};

bool is_join(const tcpstore::MessageHead& message) {
  return message.query == tcpstore::Query::add && message.key == kJoinKey;
}

/// Returns the ranks' keys that a message sets. They are known when it is whole; before that, the
/// session does not take it.
std::vector<core::PlainRuns::KeySet> rank_keys(const tcpstore::MessageHead& message) {
  std::vector<core::PlainRuns::KeySet> found;
  const auto add = [&](std::string_view key, std::size_t value_bytes) {
    if (core::rank_of_key(key)) found.push_back({std::string(key), value_bytes});
  };
  if (message.query == tcpstore::Query::set && message.value_bytes) {
    add(message.key, *message.value_bytes);
  }
  for (std::size_t i = 0; i < message.keys.size(); ++i) add(message.keys[i], message.sizes[i]);
  return found;
}

/// Returns the part of the first request that decides about the run.
Request request_of(const tcpstore::MessageHead& first) {
  if (first.query == tcpstore::Query::add) return Add{.key = first.key};
  if (first.query == tcpstore::Query::compare_set) {
    return CompareSet{.key = first.key, .expected = {}, .desired = {}};
  }
  return Ping{};
}

}  // namespace

void LaunchRuns::locate(std::function<void(Result<Owner>)> then) {
  claim_ ? claim_->ask(std::move(then)) : then(Owner{});
}

void LaunchRuns::bind(const Client& client, const tcpstore::MessageHead& first,
                      std::function<void(Result<std::string>)> then) {
  const core::PlainRuns::First request = core::PlainRuns::first_request(request_of(first));
  const auto bind = [this, client, request, then] {
    after_ends([this, client, request, then] { then(bind_here(client, request)); });
  };
  if (!claim_) return bind();
  claim_->ask([this, self = shared_from_this(), bind, then](const Result<Owner>& owner) {
    if (!owner) return then(owner.error());
    if (owner->here()) return bind();
    then(failure(Code::not_owner, "job \"{}\" was taken over by the daemon at {}",
                 printable(job_, limits::kNameBytes), owner->addresses.front()));
  });
}

/// Calls `then` when all ends are handled that the kernel had before this call. Another loop tells
/// of an end before it closes the socket, so what ended_ does not see any more is in the queue of
/// this loop by now.
void LaunchRuns::after_ends(std::function<void()> then) {
  handle_ends();
  boost::asio::post(loop_, [self = shared_from_this(), then = std::move(then)] { then(); });
}

Result<std::string> LaunchRuns::bind_here(const Client& client,
                                          const core::PlainRuns::First& first) {
  handle_ends();
  check_resting();
  const core::PlainRuns::Outcome outcome =
      runs_.bind(client.connection, {client.address, client.pid}, first, directory_.now());
  connections_.try_emplace(client.connection);
  carry_out(outcome);
  if (outcome.resumed) directory_.resume(outcome.run, client.address);
  Result<void> good = directory_.open(outcome.run, client.address);
  try {
    if (good && client.socket >= 0) ended_.watch(client.socket, client.connection);
  } catch (const std::system_error& error) {
    good = failure(Code::quota_exceeded, "cannot watch the connection: {}", error.what());
  }
  if (!good) {
    forget(client.connection);
    return good.error();
  }
  if (claim_) keep_claim();
  return outcome.run;
}

/// Keeps the claim on the job while runs have connections, or one can be resumed. Another daemon
/// that owns the job begins runs of its own: then the runs here end.
void LaunchRuns::keep_claim() {
  claim_->keep([weak = weak_from_this()](const Failure& why) {
    if (const auto self = weak.lock()) self->end_all(why);
  });
}

void LaunchRuns::release_claim() {
  check_resting();
  if (!claim_ || !connections_.empty()) return;
  if (runs_.resting().empty()) return claim_->release();
  rest_timer_.expires_after(kRestChecked);
  rest_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const auto self = cancelled ? nullptr : weak.lock();
    if (self) self->release_claim();
  });
}

void LaunchRuns::check_resting() {
  const std::string resting = runs_.resting();
  if (!resting.empty() && !directory_.keeps(resting)) runs_.retired(resting);
}

void LaunchRuns::end_all(const Failure& why) {
  for (const core::PlainRuns::Report& run : reports()) {
    if (const auto outcome = runs_.end(run.run, "the run has ended: " + why.detail)) {
      carry_out(*outcome);
    }
  }
  runs_.retired(runs_.resting());
}

void LaunchRuns::opened(std::uint64_t connection, std::function<void(Failure)> close) {
  boost::asio::post(
      loop_, [this, self = shared_from_this(), connection, close = std::move(close)]() mutable {
        const auto found = connections_.find(connection);
        if (found == connections_.end()) return;
        if (found->second.closing) return close(*found->second.closing);
        found->second.close = std::move(close);
      });
}

bool LaunchRuns::concerns(const tcpstore::MessageHead& message) const {
  return is_join(message) || !rank_keys(message).empty();
}

void LaunchRuns::ask(std::uint64_t connection, const tcpstore::MessageHead& message,
                     bool others_wait, std::function<void(Result<void>)> then) {
  boost::asio::post(loop_, [this, self = shared_from_this(), connection, joins = is_join(message),
                            keys = rank_keys(message), others_wait, then = std::move(then)] {
    handle_ends();
    if (joins) {
      runs_.joined(connection);
      return then({});
    }
    const core::PlainRuns::Outcome outcome =
        runs_.set_keys(connection, keys, others_wait, directory_.now());
    carry_out(outcome);
    if (outcome.refused) return then(failure(Code::rank_taken, "{}", outcome.reason));
    then({});
  });
}

void LaunchRuns::ended(std::uint64_t connection) {
  boost::asio::post(loop_, [this, self = shared_from_this(), connection] { forget(connection); });
}

void LaunchRuns::forget(std::uint64_t connection) {
  connections_.erase(connection);
  carry_out(runs_.closed(connection));
  release_claim();
}

Result<void> LaunchRuns::end(const std::string& run) {
  handle_ends();
  const auto outcome = runs_.end(
      run, "run \"" + printable(run, limits::kNameBytes) + "\" was ended by a request to /v1/jobs");
  if (!outcome) {
    return failure(Code::not_found, "run \"{}\" of job \"{}\" has no connection",
                   printable(run, limits::kNameBytes), printable(job_, limits::kNameBytes));
  }
  carry_out(*outcome);
  return {};
}

void LaunchRuns::handle_ends() {
  for (const std::uint64_t connection : ended_.take()) carry_out(runs_.closed(connection));
}

void LaunchRuns::carry_out(const core::PlainRuns::Outcome& outcome) {
  for (const core::PlainRuns::Note& note : outcome.notes) {
    const bool warns = note.what != "run_began" && note.what != "run_resumed" &&
                       note.what != "run_ended" && note.what != "launch_reopened";
    log_run_event(std::chrono::steady_clock::now(), warns ? LogLevel::warn : LogLevel::info,
                  "event={} job={} run={} detail={}", note.what, job_, note.run,
                  Sentence{printable(note.detail, 1024)});
  }
  for (const std::uint64_t connection : outcome.close) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) continue;
    Failure reason = failure(Code::aborted, "{}", outcome.reason);
    if (found->second.close) {
      found->second.close(std::move(reason));
    } else {
      found->second.closing = std::move(reason);
    }
  }
  for (const std::string& run : outcome.ended) directory_.end(run);
}

std::shared_ptr<LaunchRuns> Launches::of(const std::string& job) {
  if (auto known = find(job)) return known;
  std::erase_if(by_job_, [](const auto& entry) { return entry.second.expired(); });
  auto runs = make_(job);
  by_job_[job] = runs;
  return runs;
}

std::shared_ptr<LaunchRuns> Launches::find(const std::string& job) const {
  const auto found = by_job_.find(job);
  return found == by_job_.end() ? nullptr : found->second.lock();
}

}  // namespace c10dd::daemon
