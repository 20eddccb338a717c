// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/launch_runs.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <system_error>
#include <utility>

#include "daemon/shard/caused_log.h"
#include "daemon/shard/loop.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::string_view kJoinKey = "init/";

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

void log_note(const std::string& job, const core::PlainRuns::Note& note) {
  const bool warns = note.what != "run_began" && note.what != "run_resumed" &&
                     note.what != "run_ended" && note.what != "launch_reopened";
  log_caused("", warns ? LogLevel::warn : LogLevel::info, "event={} job={} run={} detail={}",
             note.what, job, note.run, Sentence{printable(note.detail, 1024)});
}

}  // namespace

LaunchRuns::LaunchRuns(boost::asio::io_context& loop, const std::string& job, Directory directory,
                       std::shared_ptr<core::RunClaim> claim)
    : loop_(loop),
      launches_(std::make_shared<core::JobLaunches>(
          job,
          core::JobLaunches::Shell{
              std::move(directory),
              [&loop](Duration time, std::function<void()> then) {
                after(loop, time, std::move(then));
              },
              [job](const core::PlainRuns::Note& note) { log_note(job, note); }},
          std::move(claim))) {}

void LaunchRuns::locate(std::function<void(Result<Owner>)> then) {
  launches_->locate(std::move(then));
}

void LaunchRuns::bind(const Client& client, const tcpstore::MessageHead& first,
                      std::function<void(Result<std::string>)> then) {
  const core::PlainRuns::First request = core::PlainRuns::first_request(request_of(first));
  launches_->confirm([self = shared_from_this(), client, request,
                      then = std::move(then)](const Result<void>& confirmed) {
    if (!confirmed) return then(confirmed.error());
    self->after_ends([=] { then(self->bind_here(client, request)); });
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
  Result<std::string> run = launches_->bind(client.connection, {client.address, client.pid}, first);
  if (!run || client.socket < 0) return run;
  try {
    ended_.watch(client.socket, client.connection);
  } catch (const std::system_error& error) {
    launches_->ended(client.connection);
    return failure(Code::quota_exceeded, "cannot watch the connection: {}", error.what());
  }
  return run;
}

void LaunchRuns::opened(std::uint64_t connection, std::function<void(Failure)> close) {
  boost::asio::post(loop_, [self = shared_from_this(), connection, close = std::move(close)] {
    self->launches_->opened(connection, close);
  });
}

bool LaunchRuns::concerns(const tcpstore::MessageHead& message) const {
  return is_join(message) || !rank_keys(message).empty();
}

void LaunchRuns::ask(std::uint64_t connection, const tcpstore::MessageHead& message,
                     bool others_wait, std::function<void(Result<void>)> then) {
  boost::asio::post(loop_, [self = shared_from_this(), connection, joins = is_join(message),
                            keys = rank_keys(message), others_wait, then = std::move(then)] {
    self->handle_ends();
    if (!joins) return then(self->launches_->set_keys(connection, keys, others_wait));
    self->launches_->joined(connection);
    then({});
  });
}

void LaunchRuns::ended(std::uint64_t connection) {
  boost::asio::post(
      loop_, [self = shared_from_this(), connection] { self->launches_->ended(connection); });
}

Result<void> LaunchRuns::end(const std::string& run) {
  handle_ends();
  return launches_->end(run);
}

void LaunchRuns::handle_ends() {
  for (const std::uint64_t connection : ended_.take()) launches_->hung_up(connection);
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
