// SPDX-License-Identifier: Apache-2.0
// The checks of internal state at the end of a run: bounds, rows against the log, and a job rebuilt
// from its rows against the live one.
#include "daemon/core/job/job.h"
#include "tests/json/json_wire.h"
#include "tests/sim/key_log.h"
#include "tests/sim/simulation.h"

namespace c10dd::sim {
namespace {

void apply(const Row& row, std::map<Bytes, Bytes>& rows) {
  if (row.kind == Row::Kind::put) {
    rows.insert_or_assign(row.key, row.value);
  } else if (row.kind == Row::Kind::erase) {
    rows.erase(row.key);
  } else {
    std::erase_if(rows, [&](const auto& entry) { return entry.first.starts_with(row.key); });
  }
}

std::string text_of(const core::JobStats& s) {
  return std::to_string(s.keys) + " keys, " + std::to_string(s.bytes) + " bytes, " +
         std::to_string(s.queue_items) + " items, " + std::to_string(s.queue_bytes) +
         " bytes of items, " + std::to_string(s.barriers_pending) + " barriers pending";
}

}  // namespace

/// Every call has its reply, so no request may be blocked (O10).
void Simulation::check_bounds() {
  for (const auto& daemon : fleet_) {
    for (const auto& [what, sums] :
         {std::pair("hold", daemon->bytes()), std::pair("hold for clients", daemon->charged())}) {
      if (sums.first == sums.second) continue;
      return world_.violated("bounds", std::string("all jobs ") + what + " " +
                                           std::to_string(sums.first) + " bytes, counted are " +
                                           std::to_string(sums.second));
    }
  }
  for (const auto& [name, number] : records_.jobs) {
    const core::Job* job = this->job(name);
    if (job == nullptr) continue;
    if (const core::AuditResult found = job->audit()) {
      world_.violated("bounds", name + ": " + *found);
    }
    const core::JobStats stats = job->stats();
    if (stats.waiters > 0 && deposed_.empty()) {
      world_.violated("bounds", name + ": " + std::to_string(stats.waiters) +
                                    " requests are blocked, but every call is answered");
    }
    if (stats.sessions > clients_.size() + old_clients_.size() + proxied_.size()) {
      world_.violated("bounds",
                      name + ": " + std::to_string(stats.sessions) + " sessions connected");
    }
  }
}

/// When all sessions have ended and all queues are empty, only keys and the audit's own rows are
/// left.
void Simulation::check_left_over() {
  for (const auto& [name, number] : records_.jobs) {
    const core::Job* job = this->job(name);
    if (job != nullptr && job->stats().sessions_known > 1) {
      world_.violated("bounds", name + ": " + std::to_string(job->stats().sessions_known) +
                                    " sessions are known, one is there");
    }
    std::map<char, std::size_t> rows;
    static_cast<void>(disk_.engine().load(number, [&](const Row& row) { ++rows[row.key[0]]; }));
    const std::size_t known = job == nullptr ? 0 : job->stats().sessions_known;
    if (rows['r'] + rows['a'] > 0 || rows['s'] > known || rows['c'] > rows['q']) {
      world_.violated("bounds",
                      name + ": rows of sessions that are over: " + std::to_string(rows['r']) +
                          " replies, " + std::to_string(rows['a']) + " arrivals, " +
                          std::to_string(rows['s']) + " sessions, " + std::to_string(rows['c']) +
                          " deliveries of " + std::to_string(rows['q']) + " items");
    }
  }
}

/// A client that has seen a lost revision is refused, and never served again (rule D).
void Simulation::check_rollback() {
  std::map<std::uint32_t, Revision> seen;
  for (const Op& op : records_.ops) seen[op.client] = std::max(seen[op.client], seen_in(op));
  for (const auto& daemon : deposed_) daemon->kill();
  fleet_.front()->kill();
  graveyard_.push_back(fleet_.front());
  disk_.roll_back();
  world_.note("rollback");
  start_daemon();
  run_until(std::chrono::seconds(30), [] { return false; });
  for (const auto& client : clients_) {
    const Revision left = records_.rolled_back_to[client->identity().job];
    const auto& over = client->core().over();
    const bool told = over && over->code == Code::state_rolled_back;
    if (told || seen[client->identity().number] <= left) continue;
    world_.violated("rollback", "client " + std::to_string(client->identity().number) +
                                    " has seen revision " +
                                    std::to_string(seen[client->identity().number]) +
                                    ", the daemon has " + std::to_string(left) + " and serves it");
  }
}

/// The rows in the engine are those of the durable steps, in order (O12).
void Simulation::check_rows(const std::string& job) {
  std::map<Bytes, Bytes> expected;
  for (const Step& step : records_.log(job)) {
    for (const Row& row : step.rows) apply(row, expected);
  }
  std::map<Bytes, Bytes> rows;
  const Result<void> loaded = disk_.engine().load(
      records_.jobs.at(job), [&](const Row& row) { rows.emplace(row.key, row.value); });
  if (!loaded || rows != expected) {
    world_.violated("rows", job + ": " + std::to_string(rows.size()) + " rows, the log makes " +
                                std::to_string(expected.size()));
  }
}

/// A job rebuilt from its rows has the same state as the live job (O12).
void Simulation::check_restored(const std::string& name) {
  const core::Job* job = this->job(name);
  if (job == nullptr) return;
  core::Job& living = const_cast<core::Job&>(*job);  // the run has ended
  core::Job restored(records_.jobs.at(name), Stamp{1, 1, living.revision()},
                     fleet_.front()->quotas());
  Result<void> good;
  static_cast<void>(disk_.engine().load(records_.jobs.at(name), [&](const Row& row) {
    if (good) good = restored.restore(row);
  }));
  const TimePoint now{std::chrono::hours(1'000'000)};
  if (good) good = restored.resume(now);
  if (!good) return world_.violated("restored", name + ": " + good.error().detail);
  if (text_of(living.stats()) != text_of(restored.stats())) {
    return world_.violated("restored", name + ": " + text_of(living.stats()) + ", but rebuilt " +
                                           text_of(restored.stats()));
  }
  core::Origin from;
  from.session = {~seed_, seed_};
  Hello hello;
  hello.session = from.session;
  std::uint64_t sequence = 0;
  std::vector<Request> questions{hello};
  const KeyLog log(records_.log(name));
  for (const auto& [key, versions] : log.keys()) questions.push_back(Get{key, {}});
  questions.push_back(List{"", "", 0});
  questions.push_back(ReadMembers{std::string(GroupCalls::kGroup), 0, 0});
  questions.push_back(WatchGroup{std::string(GroupCalls::kGroup), 0, {}});
  for (unsigned i = 0; i < swarm_.keys; ++i) {
    questions.push_back(QueueLength{"q" + std::to_string(i)});
  }
  for (const Request& question : questions) {
    const auto ask = [&](core::Job& whom) {
      const core::Effects effects = whom.apply(from, {sequence, 0, 0, 0}, question, now);
      return effects.replies.empty() ? "nothing"
                                     : json::encode_reply_body(effects.replies.front().result);
    };
    const std::string first = ask(living);
    const std::string second = ask(restored);
    if (first != second) {
      return world_.violated("restored", name + " " + std::string(info_of(question).name) + " " +
                                             json::encode_request(question) + ": " + first +
                                             ", but rebuilt " + second);
    }
    ++sequence;
  }
}

}  // namespace c10dd::sim
