// SPDX-License-Identifier: Apache-2.0
// What the clients of the model test ask for, at random.
#pragma once

#include <algorithm>
#include <map>
#include <random>

#include "tests/unit/core/job_model.h"

namespace c10dd::core {

inline constexpr std::uint64_t kClients = 4;
inline constexpr std::uint32_t kInBarriers =
    3;  // the last one comes and goes, too much for barriers
inline constexpr Duration kBrief = std::chrono::seconds(4);
inline constexpr std::size_t kOutstanding = 4;

struct Client {
  SessionId session;
  Rank rank = 0;
  bool connected = false;
  std::uint64_t attachment = 0;  // counts its connections, as the daemon does
  std::uint64_t next = 1;
  std::map<std::uint64_t, Request> outstanding;
  Stamp seen;
  std::uint64_t barriers = 0;  // asked for
  Watch watch;                 // where to go on

  Duration expiry() const { return rank < kInBarriers ? limits::kSessionExpiry : kBrief; }
  /// What a cancel is under way for is not acknowledged.
  std::uint64_t acked_below() const {
    std::uint64_t below = outstanding.empty() ? next : outstanding.begin()->first;
    for (const auto& [sequence, request] : outstanding) {
      if (const auto* cancel = std::get_if<Cancel>(&request)) {
        below = std::min(below, cancel->sequence);
      }
    }
    return below;
  }
  template <class Op>
  bool asks() const {
    return std::ranges::any_of(
        outstanding, [](const auto& entry) { return std::holds_alternative<Op>(entry.second); });
  }
};

/// What has happened, so that a test can say that enough has.
struct Tally {
  std::uint64_t deaths = 0, answers = 0, replayed = 0, popped = 0, given_back = 0, told = 0,
                expired = 0, compacted = 0;

  void operator+=(const Tally& o) {
    deaths += o.deaths, answers += o.answers, replayed += o.replayed, popped += o.popped;
    given_back += o.given_back, told += o.told, expired += o.expired, compacted += o.compacted;
  }
};

inline Request barrier(Client& c) {
  return Barrier{"step", 0, c.barriers++, c.rank, kInBarriers, std::chrono::hours(1)};
}

/// Draws requests; few keys, so that they meet.
class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  Condition condition(const Model& model) {
    const auto kind = static_cast<Condition::Kind>(random_() % 4);
    const Bytes name = key();
    const auto held = model.keys.find(name);
    const bool right = held != model.keys.end() && random_() % 2 == 0;
    return {kind, name, right ? held->second.value : "fresh", right ? held->second.revision : 0};
  }

  Request transact(const Model& model) {
    Transact op;
    for (auto n = random_() % 3; n > 0; --n) op.conditions.push_back(condition(model));
    for (auto n = random_() % 4; n > 0; --n) {
      const Bytes value = std::to_string(random_() % 100);
      switch (random_() % 6) {
        case 0:
          op.actions.push_back({Action::Kind::push, queue(), value, 0, Duration{0}, false});
          break;
        case 1:
          op.actions.push_back({Action::Kind::remove, key(), "", 0, Duration{0}, false});
          break;
        case 2:
          op.actions.push_back({Action::Kind::append, key(), value, 0, Duration{0}, false});
          break;
        case 3:
          if (!op.conditions.empty()) break;  // so that every add counts
          op.actions.push_back({Action::Kind::add, counter(), "", delta(), Duration{0}, false});
          break;
        default:
          op.actions.push_back({Action::Kind::set, key(), value, 0, ttl(), random_() % 4 == 0});
      }
    }
    return op;
  }

  Request request(Client& c, const Model& model) {
    const Duration timeout = std::chrono::milliseconds(random_() % 5000);
    const Bytes value = std::to_string(random_() % 100);
    switch (random_() % 22) {
      case 0:
      case 1:
        return Set{key(), value, ttl(), random_() % 4 == 0};
      case 2:
        return Remove{key()};
      case 3:
        return Get{key(), timeout};
      case 4:
        return Wait{{key(), random_() % 2 == 0 ? key() : queue()}, timeout};
      case 5:
        return CompareSet{key(), "", "fresh"};
      case 6:
        return CompareSet{key(), "fresh", "stale"};
      case 7:
        return MultiSet{{key(), key()}, {"1", "2"}};
      case 8:
        return MultiGet{{key(), key()}, timeout};
      case 9:
        return Check{{key(), queue()}};
      case 10:
        if (c.rank < kInBarriers && !c.asks<Barrier>()) return barrier(c);
        return QueueLength{queue()};
      case 11:
        return Append{key(), value};
      case 12:
        return RemovePrefix{random_() % 2 == 0 ? "k/" : key()};
      case 13:
      case 14:
        return transact(model);
      case 15:
      case 16:
        return QueuePush{queue(), "item" + value};
      case 17:
      case 18:
        return QueuePop{queue(), timeout};
      case 19:
        if (c.asks<Watch>()) return Count{"k/"};
        c.watch.timeout = timeout;
        return c.watch;
      default:
        return Add{counter(), delta()};
    }
  }

 private:
  Bytes key() {
    const char letter = static_cast<char>('a' + random_() % 4);
    return random_() % 2 == 0 ? Bytes(1, letter) : Bytes("k/") + letter;
  }
  Bytes queue() { return random_() % 2 == 0 ? "jobs" : "work"; }
  Bytes counter() { return "n" + std::to_string(random_() % 3); }
  std::int64_t delta() { return static_cast<std::int64_t>(random_() % 9) - 4; }
  Duration ttl() {
    return random_() % 3 == 0 ? std::chrono::milliseconds(500 + random_() % 4000) : Duration{0};
  }

  std::mt19937_64& random_;
};

}  // namespace c10dd::core
