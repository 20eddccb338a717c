// SPDX-License-Identifier: Apache-2.0
// Stories in which groups form, work, lose members and form again, as decisions of job_world.cc.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "tests/fuzz/undraw.h"

namespace c10dd::fuzz {

/// A session asks, goes away (its connection closes), or time passes.
struct Away {};
struct Deed {
  std::uint8_t who;
  std::variant<Request, Away, Duration> does;
};
using GroupStory = std::vector<Deed>;

/// Nothing is acknowledged, so that everything may be repeated.
inline Bytes decisions(std::span<const Deed> story) {
  InputWriter out;
  for (const Deed& deed : story) {
    out.byte(deed.who);
    if (const auto* request = std::get_if<Request>(&deed.does)) {
      out.byte(7).byte(7);
      Undraw(out).put(*request);
    } else if (const auto* time = std::get_if<Duration>(&deed.does)) {
      out.byte(1);
      Undraw(out).put(*time);
    } else {
      out.byte(0);
    }
  }
  return out.take();
}

inline Request join(std::size_t policy, std::uint64_t round, std::int64_t rank = -1,
                    bool spare = false) {
  Join join;
  join.group = "a";
  join.round = round;
  join.policy = kPolicies[policy];
  join.rank = rank;
  join.spare = spare;
  join.device = "b/1";
  join.labels = {{"b", "7"}};
  join.local_rank = 0;
  join.timeout = std::chrono::hours(1);
  return join;
}

inline GroupStory elastic_story() {
  const Duration second = std::chrono::seconds(1);
  const Duration hour = std::chrono::hours(1);
  return {{0, join(2, 0)},
          {1, join(2, 0)},
          {0, second},
          {2, join(2, 0)},
          {0, ReadMembers{"a", 1, 0}},
          {3, WatchGroup{"a", 0, second}},
          {3, WatchGroup{"a", 7, hour}},
          {0, Barrier{"a", 1, 0, 0, 2, hour, "a", {}}},
          {1, Barrier{"a", 1, 0, 1, 2, hour, "a", {}}},
          {0, Progress{"a", 1, "ab", 3, second}},
          {0, std::chrono::seconds(3)},
          {2, Notify{"a", Notice::Kind::preempt, {1}, "", std::chrono::seconds(5), "ab"}},
          {1, Acknowledge{"a", 1}},
          {1, Leave{"a", 1, Leave::Kind::leave, "b"}},
          {0, join(2, 1)},
          {0, second},
          {2, Leave{"a", 2, Leave::Kind::fail, "abc"}},
          {0, join(2, 2)},
          {2, join(2, 2)},
          {0, second},
          {0, Leave{"a", 0, Leave::Kind::finish, ""}},
          {2, Leave{"a", 0, Leave::Kind::finish, ""}}};
}

inline GroupStory quorum_story() {
  const Duration second = std::chrono::seconds(1);
  Request failed = join(6, 3);
  std::get<Join>(failed).failed = true;
  return {{0, join(6, 0)},
          {1, join(6, 0)},
          {0, second},
          {0, join(6, 1)},
          {1, join(6, 1)},
          {2, join(6, 0)},
          {0, join(6, 2)},
          {1, join(6, 2)},
          {0, second},
          {0, failed},
          {1, join(6, 3)},
          {2, join(6, 3)},
          {0, second},
          {2, Away{}},
          {0, join(6, 4)},
          {1, join(6, 4)},
          {0, std::chrono::minutes(1)}};
}

inline GroupStory requested_ranks_story() {
  return {{0, join(1, 0, 1)},
          {1, join(1, 0, 1)},
          {1, join(1, 0, 0)},
          {2, join(1, 0, 0)},
          {0, Leave{"a", 1, Leave::Kind::finish, ""}},
          {0, join(1, 0, 0)},
          {1, join(1, 1, 1)},
          {3, Cancel{1}},
          {1, Goodbye{}}};
}

/// One is lost, a spare takes its place.
inline GroupStory lost_story() {
  const Duration minute = std::chrono::minutes(1);
  return {{0, join(0, 0)},
          {1, join(0, 0)},
          {2, join(0, 0, -1, true)},
          {0, join(0, 1)},
          {3, WatchGroup{"a", 0, minute}},
          {0, Notify{"a", Notice::Kind::drain, {0, 1}, "", Duration(0), "7"}},
          {1, Away{}},
          {1, minute},
          {0, join(0, 1)},
          {0, join(0, 2)},
          {2, ReadMembers{"a", 0, 0}},
          {0, Away{}},
          {2, Away{}},
          {0, minute}};
}

inline std::vector<GroupStory> group_stories() {
  return {elastic_story(), quorum_story(), requested_ranks_story(), lost_story()};
}

}  // namespace c10dd::fuzz
