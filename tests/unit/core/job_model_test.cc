// SPDX-License-Identifier: Apache-2.0
// Random operations of several clients with lost connections, repeated requests, sessions that end
// and deaths of the daemon that lose every batch not yet durable, against a small model. The job
// is judged at every answer and at the end; equal seeds must give equal effects.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>

#include "daemon/core/commit_gate.h"
#include "daemon/core/job.h"
#include "tests/unit/core/job_model.h"
#include "tests/unit/core/job_model_requests.h"
#include "tests/unit/protocol/wire_samples.h"

namespace c10dd::core {
namespace {

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    clients_.resize(kClients);
    for (std::uint64_t i = 0; i < kClients; ++i) {
      clients_[i].session = {seed, i};
      clients_[i].rank = static_cast<Rank>(i);
      clients_[i].watch.key = i % 2 == 0 ? "" : "k/";
      clients_[i].watch.prefix = true;
      clients_[i].watch.from = 1;
    }
    snapshots_[0] = {};
  }

  void step() {
    switch (random_() % 40) {
      case 0:
        return lose_connection(any_client());
      case 1:
        return random_() % 4 == 0 ? die() : commit(unsynced_.size());
      case 2:
        return pass(std::chrono::milliseconds(random_() % 3000));
      case 3:
        return leave(any_client());
      case 4:
      case 5:
      case 6:
        return commit(random_() % 4);
      case 7:
        return repeat(any_client());
      case 8:
        return cancel(any_client());
      default:
        return ask(any_client());
    }
  }

  /// Lets everything end that can.
  void finish() {
    for (int round = 0; round < 10'000 && !idle(); ++round) {
      std::uint64_t most = 0;
      for (const Client& c : clients_) most = std::max(most, c.barriers);
      for (Client& c : clients_) {
        connect(c);
        const bool behind = c.rank < kInBarriers && c.barriers < most;
        if (behind && !c.asks<Barrier>()) send_new(c, barrier(c));
      }
      commit(unsynced_.size());
      pass(std::chrono::seconds(1));
    }
    ASSERT_TRUE(idle());
    const JobStats stats = job_->stats();
    EXPECT_EQ(stats.waiters, 0u);
    EXPECT_EQ(stats.meetings_pending, 0u);
    EXPECT_EQ(stats.keys, now().keys.size());
    EXPECT_EQ(stats.queue_items, now().free.size() + now().claims.size());
    for (const auto& [key, sum] : sums_) {
      const std::string held = now().has(key) ? now().keys.at(key).value : "0";
      EXPECT_EQ(held, std::to_string(sum)) << key << " lost or repeated an add";
    }
  }

  std::uint64_t digest() const { return digest_; }
  const Tally& tally() const { return tally_; }

 private:
  struct Blocked {
    Model::Call call;
    Bytes queue;
  };

  Client& client_of(const SessionId& id) { return clients_[id.low % kClients]; }
  Client& any_client() { return clients_[random_() % kClients]; }
  Model& now() { return snapshots_.rbegin()->second; }
  bool idle() const {
    return std::ranges::all_of(clients_, [&](const Client& c) {
      return c.connected && c.outstanding.empty() &&
             (c.rank >= kInBarriers || c.barriers == clients_[0].barriers);
    });
  }

  void connect(Client& c) {
    if (c.connected) return;
    Hello hello;
    hello.session = c.session;
    hello.rank = c.rank;
    hello.seen = c.seen;
    hello.expiry = c.rank < kInBarriers ? Duration{0} : c.expiry();
    Effects effects = job_->apply({c.session, "", Access::admin, 0}, {}, hello, time_);
    const Answer welcome = effects.replies.at(0).answer;
    if (!welcome) {
      ASSERT_TRUE(effects.rows.empty());
      EXPECT_EQ(welcome.error().code, Code::session_expired);
      EXPECT_TRUE(over_.contains(c.session));
      commit(unsynced_.size());  // it is told when that is durable
      EXPECT_LE(effects.replies[0].observed, durable_);
      return begin_anew(c);
    }
    EXPECT_FALSE(now().ended.contains(c.session)) << "what it has asked may be done twice";
    c.connected = true;
    ++c.attachment;
    ends_.erase(c.session);
    if (!effects.rows.empty()) {  // the others only waited for its connection
      effects.replies.erase(effects.replies.begin());
      Model next = now();
      next.begin(effects.revision, time_);
      take(std::move(effects), std::move(next));
    }
    const auto again = c.outstanding;
    for (const auto& [sequence, request] : again) {
      if (c.outstanding.contains(sequence)) send(c, sequence, request);
    }
  }

  /// Another session takes its place; what had no answer was applied or was not.
  void begin_anew(Client& c) {
    ++tally_.expired;
    for (const auto& [sequence, request] : c.outstanding) {
      if (!now().applied.contains({c.session, sequence})) count(request, -1);
    }
    c.session.low += kClients;
    c.next = 1;
    c.outstanding.clear();
  }

  void count(const Request& request, std::int64_t times) {
    if (const auto* add = std::get_if<Add>(&request)) sums_[add->key] += times * add->delta;
    const auto* transact = std::get_if<Transact>(&request);
    for (const Action& a : transact != nullptr ? transact->actions : std::vector<Action>()) {
      if (a.kind == Action::Kind::add) sums_[a.key] += times * a.delta;
    }
  }

  void ask(Client& c) {
    if (!c.connected && c.expiry() == kBrief && random_() % 40 != 0) return;  // it stays away
    connect(c);
    if (c.connected && c.outstanding.size() < kOutstanding) send_new(c, draw_.request(c, now()));
  }

  void send_new(Client& c, Request request) {
    count(request, 1);
    const std::uint64_t sequence = c.next++;
    c.outstanding[sequence] = request;
    send(c, sequence, request);
  }

  void repeat(Client& c) {
    if (!c.connected || c.outstanding.empty()) return;
    const auto it = std::next(c.outstanding.begin(), random_() % c.outstanding.size());
    // No client asks again on the same connection; the answer of a wait may be on its way.
    if (held_.contains({c.session, it->first}) && info_of(it->second).kind == OpKind::wait) return;
    send(c, it->first, Request(it->second));
  }

  /// Nobody wants the item any more.
  void cancel(Client& c) {
    if (!c.connected) return;
    const auto it = std::ranges::find_if(c.outstanding, [](const auto& entry) {
      return std::holds_alternative<QueuePop>(entry.second);
    });
    if (it == c.outstanding.end()) return;
    const Cancel cancel{it->first};
    const std::uint64_t sequence = c.next++;
    c.outstanding.erase(it);
    c.outstanding[sequence] = cancel;
    send(c, sequence, cancel);
  }

  void send(Client& c, std::uint64_t sequence, const Request& request) {
    const CallId call{sequence, c.acked_below(), hash(samples::bytes_of(request)), 0};
    const Model::Call id{c.session, sequence};
    Effects effects = job_->apply({c.session, "", Access::admin, 0}, call, request, time_);
    Model next = now();
    next.begin(effects.revision, time_);
    next.acknowledge(c.session, call.acked_below);
    const std::string expected = next.perform(id, request);
    if (const auto* cancel = std::get_if<Cancel>(&request)) {
      const Model::Call target{c.session, cancel->sequence};
      tally_.given_back += next.claims.contains(target);
      unblock(target);
      next.cancel(target);
    }
    if (!expected.empty()) {
      ASSERT_FALSE(effects.replies.empty());
      const Reply& own = effects.replies[0];
      EXPECT_TRUE(own.to == c.session && own.sequence == sequence);
      EXPECT_EQ(script::text_of(own.answer), expected) << info_of(request).name;
    }
    unblock(id);
    const bool waits = effects.replies.empty() || effects.replies[0].to != c.session ||
                       effects.replies[0].sequence != sequence;
    const auto* pop = std::get_if<QueuePop>(&request);
    if (pop != nullptr && waits) blocked_.push_back({id, pop->key});
    take(std::move(effects), std::move(next));
  }

  void unblock(const Model::Call& call) {
    std::erase_if(blocked_, [&](const Blocked& blocked) { return blocked.call == call; });
  }

  /// The effects of a step, and the model after it.
  void take(Effects effects, Model next) {
    EXPECT_TRUE(next.fresh.empty() || effects.revision > snapshots_.rbegin()->first);
    log_.insert(log_.end(), next.fresh.begin(), next.fresh.end());
    next.fresh.clear();
    snapshots_[effects.revision] = std::move(next);
    job_->seal(effects.rows);
    if (!effects.rows.empty()) unsynced_.emplace_back(effects.revision, effects.rows);
    for (const Row& row : effects.rows) mix(row.key + '=' + row.value);
    for (const Event& event : effects.events) {
      tally_.replayed += std::holds_alternative<ReplyReplayed>(event);
    }
    for (Reply& reply : effects.replies) {
      mix(script::text_of(reply.answer) + std::to_string(reply.observed));
      EXPECT_LE(reply.observed, effects.revision);
      const Client& c = client_of(reply.to);
      const auto call = c.outstanding.find(reply.sequence);
      const bool known = c.session == reply.to && call != c.outstanding.end();
      if (known) judge({reply.to, reply.sequence}, call->second, reply.answer);
      reply.attachment = c.attachment;
      held_.insert({reply.to, reply.sequence});
      gate_->hold(std::move(reply));
    }
    EXPECT_EQ(job_->stats().keys, now().keys.size());
    EXPECT_EQ(job_->stats().queue_items, now().free.size() + now().claims.size());
    deliver();
  }

  /// Holds what an answer says against the model as it is now.
  void judge(const Model::Call& call, const Request& request, const Answer& answer) {
    const Model& model = now();
    const auto there = [&](const Bytes& key) { return model.has(key) || model.length(key) > 0; };
    if (const auto* get = std::get_if<Get>(&request)) {
      ASSERT_EQ(answer.has_value(), model.has(get->key));
      if (!answer) return;
      EXPECT_EQ(std::get<Value>(*answer).value, model.keys.at(get->key).value);
      EXPECT_EQ(std::get<Value>(*answer).revision, model.keys.at(get->key).revision);
    } else if (const auto* many = std::get_if<MultiGet>(&request)) {
      ASSERT_EQ(answer.has_value(), std::ranges::all_of(many->keys, there));
      for (std::size_t i = 0; answer && i < many->keys.size(); ++i) {
        EXPECT_EQ(std::get<Values>(*answer).values[i], model.keys.at(many->keys[i]).value);
      }
    } else if (const auto* wait = std::get_if<Wait>(&request)) {
      EXPECT_EQ(answer.has_value(), std::ranges::all_of(wait->keys, there));
    } else if (const auto* check = std::get_if<Check>(&request)) {
      EXPECT_EQ(std::get<Checked>(*answer).all, std::ranges::all_of(check->keys, there));
    } else if (const auto* length = std::get_if<QueueLength>(&request)) {
      EXPECT_EQ(std::get<Counted>(*answer).count, model.length(length->key));
    } else if (const auto* barrier = std::get_if<Barrier>(&request)) {
      ASSERT_TRUE(answer);
      for (std::uint32_t i = 0; i < kInBarriers; ++i) {
        EXPECT_GT(clients_[i].barriers, barrier->sequence);
      }
    } else if (const auto* pop = std::get_if<QueuePop>(&request)) {
      judge_pop(call, *pop, answer);
    } else if (const auto* watch = std::get_if<Watch>(&request)) {
      judge_watch(*watch, answer);
    }
  }

  /// The oldest item, for the pop that has waited longest; or the same one as before.
  void judge_pop(const Model::Call& call, const QueuePop& pop, const Answer& answer) {
    const auto claim = now().claims.find(call);
    if (claim != now().claims.end()) {
      ASSERT_TRUE(answer);
      EXPECT_EQ(std::get<Popped>(*answer).value, claim->second.value);
      return;
    }
    const auto first = std::ranges::find(blocked_, pop.key, &Blocked::queue);
    if (answer && first != blocked_.end()) {
      EXPECT_EQ(first->call, call);
    }
    unblock(call);
    if (!answer) {
      EXPECT_EQ(now().length(pop.key), 0u);
      return;
    }
    ++tally_.popped;
    EXPECT_EQ(now().claim(call, pop.key), std::get<Popped>(*answer).value);
  }

  /// Every change from there on, and nothing else; only a death makes the daemon forget any.
  void judge_watch(const Watch& watch, const Answer& answer) {
    if (!answer) {
      EXPECT_EQ(answer.error().code, Code::compacted);
      EXPECT_LE(watch.from, restarted_at_);
      return;
    }
    std::string expected;
    std::string got;
    for (const Change& change : log_) {
      if (change.revision >= watch.from && change.key.starts_with(watch.key))
        expected += text_of(change);
    }
    for (const Change& change : std::get<Changes>(*answer).changes) got += text_of(change);
    EXPECT_EQ(got, expected) << "from " << watch.from;
  }

  static std::string text_of(const Change& change) {
    return std::to_string(change.revision) + (change.removed ? ":-" : ":") + change.key + '=' +
           change.value + ' ';
  }

  void deliver() {
    for (const Reply& reply : gate_->take_released()) {
      EXPECT_LE(reply.observed, gate_->stamp().revision) << "an answer leaves before its row";
      Client& c = client_of(reply.to);
      held_.erase({reply.to, reply.sequence});
      if (!c.connected || c.session != reply.to || c.attachment != reply.attachment) continue;
      const auto call = c.outstanding.extract(reply.sequence);
      if (call.empty()) continue;
      ++tally_.answers;
      c.seen = std::max(c.seen, gate_->stamp());
      if (reply.answer) {
        expect_kept(snapshots_.begin()->second, durable_, {reply.to, reply.sequence}, call.mapped(),
                    *reply.answer);
      }
      if (!std::holds_alternative<Watch>(call.mapped())) continue;
      tally_.compacted += !reply.answer;
      c.watch.from = reply.answer ? std::get<Changes>(*reply.answer).next : c.seen.revision + 1;
      if (reply.answer) tally_.told += std::get<Changes>(*reply.answer).changes.size();
    }
  }

  void lose_connection(Client& c) {
    if (!std::exchange(c.connected, false)) return;
    ends_[c.session] = time_ + c.expiry();
    std::erase_if(blocked_, [&](const Blocked& b) { return b.call.first == c.session; });
    take(job_->disconnect(c.session, time_), Model(now()));
  }

  /// The session ends; the process behind it comes back as another.
  void leave(Client& c) {
    if (!c.connected || !c.outstanding.empty() || random_() % 4 != 0) return;
    const CallId call{c.next, random_() % 2 == 0 ? c.next : 1, 0, 0};
    Effects effects = job_->apply({c.session, "", Access::admin, 0}, call, Goodbye{}, time_);
    Model next = now();
    next.begin(effects.revision, time_);
    next.acknowledge(c.session, call.acked_below);
    tally_.given_back += next.claims.size();
    next.end(c.session, false);
    const SessionId another{c.session.high, c.session.low + kClients};
    c = {another, c.rank, false, c.attachment, 1, {}, c.seen, c.barriers, c.watch};
    take(std::move(effects), std::move(next));
  }

  void commit(std::size_t batches) {
    for (; batches > 0 && !unsynced_.empty(); --batches) {
      const auto& [revision, rows] = unsynced_.front();
      for (const Row& row : rows) {
        if (row.kind == Row::Kind::put) table_[row.key] = row.value;
        if (row.kind == Row::Kind::erase) table_.erase(row.key);
        if (row.kind != Row::Kind::erase_prefix) continue;
        std::erase_if(table_, [&](const auto& entry) { return entry.first.starts_with(row.key); });
      }
      durable_ = revision;
      unsynced_.pop_front();
    }
    snapshots_.erase(snapshots_.begin(), std::prev(snapshots_.upper_bound(durable_)));
    gate_->committed(durable_);
    job_->durable(durable_);
    deliver();
  }

  void pass(Duration time) {
    const TimePoint end = time_ + time;
    while (job_->next_deadline() && *job_->next_deadline() <= end) {
      time_ = std::max(time_, *job_->next_deadline());
      Effects effects = job_->tick(time_);
      Model next = now();
      next.begin(effects.revision, time_);
      std::set<std::pair<TimePoint, SessionId>> due;
      for (const auto& [id, ends] : ends_) {
        if (ends <= time_) due.emplace(ends, id);
      }
      for (const auto& [ends, id] : due) {
        next.end(id, true);
        ends_.erase(id);
        over_.insert(id);
      }
      next.expire(time_);
      take(std::move(effects), std::move(next));
    }
    time_ = end;
  }

  /// Whatever is not durable is gone.
  void die() {
    ++tally_.deaths;
    unsynced_.clear();
    blocked_.clear();
    ends_.clear();
    held_.clear();
    snapshots_.erase(snapshots_.upper_bound(durable_), snapshots_.end());
    std::erase_if(log_, [&](const Change& change) { return change.revision > durable_; });
    restarted_at_ = durable_;
    const Stamp start{1, ++epoch_, durable_};
    job_ = std::make_unique<Job>(1, start);
    gate_ = std::make_unique<CommitGate>(start, false);
    for (const auto& [key, value] : table_) {
      ASSERT_TRUE(job_->restore({Row::Kind::put, key, value}));
    }
    ASSERT_TRUE(job_->resume(time_));
    now().resume(time_);
    for (Client& c : clients_) {
      c.connected = false;
      ends_[c.session] = time_ + c.expiry();
    }
    for (const SessionId& id : now().keepers()) {
      ends_[id] = time_ + client_of(id).expiry();
    }
  }

  static std::uint64_t hash(const Bytes& bytes) {
    std::uint64_t h = 0xCBF29CE484222325;
    for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return h;
  }
  void mix(const std::string& text) { digest_ = digest_ * 31 + hash(text); }

  std::mt19937_64 random_;
  Draw draw_{random_};
  TimePoint time_;
  Epoch epoch_ = 1;
  std::unique_ptr<Job> job_ = std::make_unique<Job>(1, Stamp{1, 1, 0});
  std::unique_ptr<CommitGate> gate_ = std::make_unique<CommitGate>(Stamp{1, 1, 0}, false);
  std::vector<Client> clients_;
  std::map<Revision, Model> snapshots_;  // by the revision that made them, from durable_ on
  std::map<SessionId, TimePoint> ends_;  // of those without a connection
  std::set<SessionId> over_;             // whose time was over
  std::vector<Blocked> blocked_;         // pops, in order of arrival
  std::set<Model::Call> held_;           // answers at the gate
  std::vector<Change> log_;
  std::deque<std::pair<Revision, std::vector<Row>>> unsynced_;
  std::map<Bytes, Bytes> table_;
  Revision durable_ = 0;
  Revision restarted_at_ = 0;
  std::map<Bytes, std::int64_t> sums_;  // of the adds that clients asked for
  std::uint64_t digest_ = 0;
  Tally tally_;
};

struct Played {
  Tally tally;
  std::uint64_t digest = 0;
};

Played run(std::uint64_t seed) {
  World world(seed);
  for (int i = 0; i < 3'000 && !testing::Test::HasFailure(); ++i) world.step();
  world.finish();
  return {world.tally(), world.digest()};
}

TEST(JobModel, AppliesEveryRequestOnceThroughLossesAndDeaths) {
  Tally all;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Played played = run(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    all += played.tally;
  }
  EXPECT_GT(all.deaths, 60u);
  EXPECT_GT(all.answers, 50'000u);
  EXPECT_GT(all.replayed, 600u);
  EXPECT_GT(all.popped, 2'000u);
  EXPECT_GT(all.given_back, 100u);
  EXPECT_GT(all.told, 5'000u);
  EXPECT_GT(all.expired, 60u);
  EXPECT_LT(all.compacted, all.deaths * kClients);
}

TEST(JobModel, GivesEqualEffectsForEqualSeeds) {
  EXPECT_EQ(run(7).digest, run(7).digest);
  EXPECT_NE(run(7).digest, run(8).digest);
}

}  // namespace
}  // namespace c10dd::core
