// SPDX-License-Identifier: Apache-2.0
// Random operations of several clients with lost connections, repeated requests, and deaths of the
// daemon that lose every batch not yet durable, against a small model. The job is judged at every
// answer and at the end; equal seeds must give equal effects.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>

#include "daemon/core/commit_gate.h"
#include "daemon/core/job.h"
#include "tests/unit/script_words.h"
#include "tests/unit/wire_samples.h"

namespace c10dd::core {
namespace {

constexpr std::uint64_t kClients = 4;
constexpr std::size_t kOutstanding = 3;

/// What the job should hold: values, and the answers of the writes that changed something.
struct Model {
  std::map<Bytes, Bytes> values;
  std::map<std::pair<SessionId, std::uint64_t>, std::string> answered;
};

struct Client {
  SessionId session;
  Rank rank = 0;
  bool connected = false;
  std::uint64_t next = 1;
  std::map<std::uint64_t, Request> outstanding;
  Stamp seen;
  std::uint64_t barriers = 0;  // asked for

  std::uint64_t acked_below() const {
    return outstanding.empty() ? next : outstanding.begin()->first;
  }
  bool in_barrier() const {
    return std::ranges::any_of(outstanding, [](const auto& entry) {
      return std::holds_alternative<Barrier>(entry.second);
    });
  }
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    clients_.resize(kClients);
    for (std::uint64_t i = 0; i < kClients; ++i) {
      clients_[i].session = {seed, i};
      clients_[i].rank = static_cast<Rank>(i);
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
        if (c.barriers < most && !c.in_barrier()) send_new(c, barrier(c));
      }
      commit(unsynced_.size());
      pass(std::chrono::seconds(1));
    }
    ASSERT_TRUE(idle());
    EXPECT_EQ(job_->stats().waiters, 0u);
    EXPECT_EQ(job_->stats().meetings_pending, 0u);
    EXPECT_EQ(job_->stats().keys, now().values.size());
    for (const auto& [key, sum] : sums_) {
      EXPECT_EQ(now().values[key], std::to_string(sum)) << key << " lost or repeated an add";
    }
  }

  std::uint64_t digest() const { return digest_; }
  std::uint64_t deaths() const { return deaths_; }
  std::uint64_t answers() const { return answers_; }
  std::uint64_t replayed() const { return replayed_; }

 private:
  Client& any_client() { return clients_[random_() % kClients]; }
  Model& now() { return snapshots_.rbegin()->second; }
  Bytes any_key() { return Bytes(1, static_cast<char>('a' + random_() % 6)); }
  bool idle() const {
    return std::ranges::all_of(clients_, [&](const Client& c) {
      return c.connected && c.outstanding.empty() && c.barriers == clients_[0].barriers;
    });
  }

  Request barrier(Client& c) {
    return Barrier{"step", 0, c.barriers++, c.rank, kClients, std::chrono::hours(1)};
  }

  Request any_request(Client& c) {
    const Duration timeout = std::chrono::milliseconds(random_() % 5000);
    switch (random_() % 12) {
      case 0:
        return Set{any_key(), std::to_string(random_() % 100)};
      case 1:
        return Remove{any_key()};
      case 2:
        return Get{any_key(), timeout};
      case 3:
        return Wait{{any_key(), any_key()}, timeout};
      case 4:
        return CompareSet{any_key(), "", "fresh"};
      case 5:
        return CompareSet{any_key(), "fresh", "stale"};
      case 6:
        return MultiSet{{any_key(), any_key()}, {"1", "2"}};
      case 7:
        return MultiGet{{any_key(), any_key()}, timeout};
      case 8:
        return Check{{any_key(), any_key()}};
      case 9:
        return c.in_barrier() ? Request(Ping{}) : barrier(c);
      default:
        return Add{"n" + std::to_string(random_() % 3), std::int64_t(random_() % 9) - 4};
    }
  }

  void connect(Client& c) {
    if (c.connected) return;
    c.connected = true;
    Hello hello;
    hello.session = c.session;
    hello.rank = c.rank;
    hello.seen = c.seen;
    const Effects effects = job_->apply({c.session, "", Access::admin, 0}, {}, hello, time_);
    ASSERT_TRUE(effects.replies.at(0).answer) << effects.replies[0].answer.error().detail;
    const auto again = c.outstanding;
    for (const auto& [sequence, request] : again) send(c, sequence, request);
  }

  void ask(Client& c) {
    connect(c);
    if (c.outstanding.size() < kOutstanding) send_new(c, any_request(c));
  }

  void send_new(Client& c, Request request) {
    if (const auto* add = std::get_if<Add>(&request)) sums_[add->key] += add->delta;
    const std::uint64_t sequence = c.next++;
    c.outstanding[sequence] = request;
    send(c, sequence, request);
  }

  void repeat(Client& c) {
    if (!c.connected || c.outstanding.empty()) return;
    const auto it = std::next(c.outstanding.begin(), random_() % c.outstanding.size());
    send(c, it->first, Request(it->second));
  }

  void send(Client& c, std::uint64_t sequence, const Request& request) {
    const CallId call{sequence, c.acked_below(), hash(samples::bytes_of(request)), 0};
    Effects effects = job_->apply({c.session, "", Access::admin, 0}, call, request, time_);
    Model next = now();
    const std::string expected = expect(next, {c.session, sequence}, request);
    if (effects.revision != snapshots_.rbegin()->first) snapshots_[effects.revision] = next;
    if (!expected.empty()) {
      ASSERT_FALSE(effects.replies.empty());
      const Reply& own = effects.replies[0];
      EXPECT_TRUE(own.to == c.session && own.sequence == sequence);
      EXPECT_EQ(script::text_of(own.answer), expected) << info_of(request).name;
    }
    take(std::move(effects));
  }

  /// The answer of a write by the model, which it changes; empty for other operations.
  static std::string expect(Model& m, const std::pair<SessionId, std::uint64_t>& id,
                            const Request& request) {
    if (const auto known = m.answered.find(id); known != m.answered.end()) return known->second;
    std::string text;
    bool changed = true;
    if (const auto* set = std::get_if<Set>(&request)) {
      m.values[set->key] = set->value;
      text = "ok";
    } else if (const auto* many = std::get_if<MultiSet>(&request)) {
      for (std::size_t i = 0; i < many->keys.size(); ++i) m.values[many->keys[i]] = many->values[i];
      text = "ok";
    } else if (const auto* remove = std::get_if<Remove>(&request)) {
      changed = m.values.erase(remove->key) > 0;
      text = changed ? "ok existed" : "ok absent";
    } else if (const auto* add = std::get_if<Add>(&request)) {
      Bytes& value = m.values[add->key];
      value = std::to_string((value.empty() ? 0 : script::number(value)) + add->delta);
      text = "ok " + value;
    } else if (const auto* compare = std::get_if<CompareSet>(&request)) {
      const auto it = m.values.find(compare->key);
      changed = it == m.values.end() ? compare->expected.empty() : it->second == compare->expected;
      const bool exists = it != m.values.end();
      text = changed ? "ok swapped" : exists ? "ok kept " + script::fold(it->second) : "ok missing";
      if (changed) m.values[compare->key] = compare->desired;
    } else {
      changed = false;
    }
    if (changed) m.answered[id] = text;
    return text;
  }

  /// Holds what an answer says of keys against the model as it is now.
  void judge(const Request& request, const Answer& answer) {
    const std::map<Bytes, Bytes>& values = now().values;
    const auto all_there = [&](const std::vector<Bytes>& keys) {
      return std::ranges::all_of(keys, [&](const Bytes& key) { return values.contains(key); });
    };
    if (const auto* get = std::get_if<Get>(&request)) {
      EXPECT_EQ(answer.has_value(), values.contains(get->key));
      if (answer) {
        EXPECT_EQ(std::get<Value>(*answer).value, values.at(get->key));
      }
    } else if (const auto* many = std::get_if<MultiGet>(&request)) {
      EXPECT_EQ(answer.has_value(), all_there(many->keys));
      for (std::size_t i = 0; answer && i < many->keys.size(); ++i) {
        EXPECT_EQ(std::get<Values>(*answer).values[i], values.at(many->keys[i]));
      }
    } else if (const auto* wait = std::get_if<Wait>(&request)) {
      EXPECT_EQ(answer.has_value(), all_there(wait->keys));
    } else if (const auto* check = std::get_if<Check>(&request)) {
      EXPECT_EQ(std::get<Checked>(*answer).all, all_there(check->keys));
    } else if (const auto* barrier = std::get_if<Barrier>(&request)) {
      for (const Client& c : clients_) EXPECT_GT(c.barriers, barrier->sequence);
    }
  }

  void take(Effects effects) {
    if (!effects.rows.empty()) unsynced_.emplace_back(effects.revision, effects.rows);
    for (const Row& row : effects.rows) mix(row.key + '=' + row.value);
    for (const Event& event : effects.events)
      replayed_ += std::holds_alternative<ReplyReplayed>(event);
    for (Reply& reply : effects.replies) {
      mix(script::text_of(reply.answer) + std::to_string(reply.observed));
      EXPECT_LE(reply.observed, effects.revision);
      const Client& c = clients_[reply.to.low % kClients];
      const auto call = c.outstanding.find(reply.sequence);
      if (c.session == reply.to && call != c.outstanding.end()) judge(call->second, reply.answer);
      gate_->hold(std::move(reply));
    }
    deliver();
  }

  void deliver() {
    for (const Reply& reply : gate_->take_released()) {
      EXPECT_LE(reply.observed, gate_->stamp().revision) << "an answer leaves before its row";
      Client& c = clients_[reply.to.low % kClients];
      if (!c.connected || c.session != reply.to) continue;
      answers_ += c.outstanding.erase(reply.sequence);
      c.seen = std::max(c.seen, gate_->stamp());
    }
  }

  void lose_connection(Client& c) {
    if (!std::exchange(c.connected, false)) return;
    take(job_->disconnect(c.session, time_));
  }

  /// The session ends; the process behind it comes back as another.
  void leave(Client& c) {
    if (!c.connected || !c.outstanding.empty() || random_() % 4 != 0) return;
    const CallId call{c.next, c.next, 0, 0};
    Effects effects = job_->apply({c.session, "", Access::admin, 0}, call, Goodbye{}, time_);
    if (effects.revision != snapshots_.rbegin()->first) snapshots_[effects.revision] = Model(now());
    c = {{c.session.high, c.session.low + kClients}, c.rank, false, 1, {}, c.seen, c.barriers};
    take(std::move(effects));
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
    time_ += time;
    while (job_->next_deadline() && *job_->next_deadline() <= time_) take(job_->tick(time_));
  }

  /// Whatever is not durable is gone.
  void die() {
    ++deaths_;
    unsynced_.clear();
    snapshots_.erase(snapshots_.upper_bound(durable_), snapshots_.end());
    const Stamp start{1, ++epoch_, durable_};
    job_ = std::make_unique<Job>(1, start);
    gate_ = std::make_unique<CommitGate>(start, false);
    for (const auto& [key, value] : table_) {
      ASSERT_TRUE(job_->restore({Row::Kind::put, key, value}));
    }
    ASSERT_TRUE(job_->resume(time_));
    for (Client& c : clients_) c.connected = false;
  }

  static std::uint64_t hash(const Bytes& bytes) {
    std::uint64_t h = 0xCBF29CE484222325;
    for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return h;
  }
  void mix(const std::string& text) { digest_ = digest_ * 31 + hash(text); }

  std::mt19937_64 random_;
  TimePoint time_;
  Epoch epoch_ = 1;
  std::unique_ptr<Job> job_ = std::make_unique<Job>(1, Stamp{1, 1, 0});
  std::unique_ptr<CommitGate> gate_ = std::make_unique<CommitGate>(Stamp{1, 1, 0}, false);
  std::vector<Client> clients_;
  std::map<Revision, Model> snapshots_;  // by the revision that made them, from durable_ on
  std::deque<std::pair<Revision, std::vector<Row>>> unsynced_;
  std::map<Bytes, Bytes> table_;
  Revision durable_ = 0;
  std::map<Bytes, std::int64_t> sums_;  // of the adds that clients asked for
  std::uint64_t digest_ = 0;
  std::uint64_t deaths_ = 0;
  std::uint64_t answers_ = 0;
  std::uint64_t replayed_ = 0;
};

World run(std::uint64_t seed) {
  World world(seed);
  for (int i = 0; i < 3'000 && !testing::Test::HasFailure(); ++i) world.step();
  world.finish();
  return world;
}

TEST(JobModel, AppliesEveryRequestOnceThroughLossesAndDeaths) {
  std::uint64_t deaths = 0;
  std::uint64_t answers = 0;
  std::uint64_t replayed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const World world = run(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    deaths += world.deaths();
    answers += world.answers();
    replayed += world.replayed();
  }
  EXPECT_GT(deaths, 60u);
  EXPECT_GT(answers, 60'000u);
  EXPECT_GT(replayed, 600u);
}

TEST(JobModel, GivesEqualEffectsForEqualSeeds) {
  EXPECT_EQ(run(7).digest(), run(7).digest());
  EXPECT_NE(run(7).digest(), run(8).digest());
}

}  // namespace
}  // namespace c10dd::core
