// SPDX-License-Identifier: Apache-2.0
// The judge is judged: small histories by hand, then generated ones. A valid history is made by
// choosing the moment of each call inside its interval; a mutated one has an answer that no order
// explains. C10DD_HISTORIES says how many (default 300 of each).
#include "tests/history/linearize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "tests/sim/random.h"

namespace c10dd::history {
namespace {

using Kind = KeyCall::Kind;
using sim::Random;

KeyCall set(Bytes value, std::uint64_t from, std::uint64_t to) {
  return {
      .kind = Kind::set, .input = std::move(value), .invoked = from, .answered = to, .known = true};
}
KeyCall get(Bytes value, std::uint64_t from, std::uint64_t to) {
  KeyCall call{.kind = Kind::get, .invoked = from, .answered = to, .known = true};
  call.yes = !value.empty();
  call.value = std::move(value);
  return call;
}
KeyCall add(std::int64_t delta, std::int64_t sum, std::uint64_t from, std::uint64_t to) {
  KeyCall call{.kind = Kind::add, .delta = delta, .invoked = from, .answered = to, .known = true};
  call.number = sum;
  return call;
}
KeyCall unknown(KeyCall call) {
  call.known = false;
  return call;
}

TEST(Linearize, AnEmptyHistoryIsFine) { EXPECT_EQ(linearize({}), Verdict::linearizable); }

TEST(Linearize, ReadsAfterAWriteSeeIt) {
  EXPECT_EQ(linearize({set("a", 1, 2), get("a", 3, 4)}), Verdict::linearizable);
  EXPECT_EQ(linearize({set("a", 1, 2), get("", 3, 4)}), Verdict::violated);
}

TEST(Linearize, ConcurrentReadsMaySeeEither) {
  EXPECT_EQ(linearize({set("a", 1, 6), get("", 2, 3), get("a", 4, 5)}), Verdict::linearizable);
  EXPECT_EQ(linearize({set("a", 1, 6), get("a", 2, 3), get("", 4, 5)}), Verdict::violated);
}

TEST(Linearize, AnUnknownWriteMayHaveHappenedOrNot) {
  const KeyCall lost = unknown(set("a", 1, 0));
  EXPECT_EQ(linearize({lost, get("", 3, 4)}), Verdict::linearizable);
  EXPECT_EQ(linearize({lost, get("", 3, 4), get("a", 5, 6)}), Verdict::linearizable);
  EXPECT_EQ(linearize({lost, get("a", 3, 4), get("", 5, 6)}), Verdict::violated);
}

TEST(Linearize, AnAddIsMadeOnce) {
  EXPECT_EQ(linearize({add(1, 1, 1, 4), add(2, 3, 2, 3)}), Verdict::linearizable);
  EXPECT_EQ(linearize({add(1, 1, 1, 2), add(2, 4, 3, 4)}), Verdict::violated);
  EXPECT_EQ(linearize({unknown(add(1, 0, 1, 0)), add(2, 4, 3, 4)}), Verdict::violated);
}

TEST(Linearize, CompareSetSwapsOnlyWhatItExpects) {
  KeyCall swap{.kind = Kind::compare_set,
               .input = "b",
               .expected = "a",
               .invoked = 3,
               .answered = 4,
               .known = true};
  swap.yes = true;
  EXPECT_EQ(linearize({set("a", 1, 2), swap, get("b", 5, 6)}), Verdict::linearizable);
  EXPECT_EQ(linearize({set("x", 1, 2), swap, get("b", 5, 6)}), Verdict::violated);
  swap.yes = false;
  swap.value = "x";
  EXPECT_EQ(linearize({set("x", 1, 2), swap, get("x", 5, 6)}), Verdict::linearizable);
}

TEST(Linearize, GivesUpWhenAskedTo) {
  std::vector<KeyCall> calls;
  for (std::uint64_t i = 0; i < 40; ++i) calls.push_back(set(std::to_string(i), i, 1000 + i));
  calls.push_back(get("nobody", 2000, 2001));
  EXPECT_EQ(linearize(calls, 10'000), Verdict::undecided);
}

/// Calls of some clients, each made at a moment of its interval against one real key.
std::vector<KeyCall> generate(Random& random) {
  struct Open {
    KeyCall call;
    std::uint64_t moment = 0;
  };
  std::vector<Open> open;
  const std::uint64_t clients = 2 + random.below(4);
  for (std::uint64_t client = 0; client < clients; ++client) {
    std::uint64_t time = random.below(10);
    for (std::uint64_t i = 0; i < 10; ++i) {
      Open next;
      next.call.kind = static_cast<Kind>(random.below(7));
      next.call.input = std::to_string(random.below(4));
      next.call.expected = std::to_string(random.below(4));
      next.call.delta = static_cast<std::int64_t>(random.below(5));
      next.call.invoked = time * 8 + client;
      next.moment = time + random.below(20);
      time = next.moment + 1 + random.below(20);
      next.call.answered = time * 8 + client;
      next.call.known = !random.chance(10);
      next.moment = next.moment * 8 + client;
      time += 1;
      open.push_back(next);
    }
  }
  std::ranges::sort(open, {}, &Open::moment);
  std::optional<Bytes> key;
  std::vector<KeyCall> calls;
  for (Open& each : open) {
    KeyCall& call = each.call;
    const bool happens = call.known || random.chance(50);
    const bool number = !key || key->find_first_not_of("0123456789") == Bytes::npos;
    if (call.kind == Kind::get || call.kind == Kind::exists || call.kind == Kind::remove) {
      call.yes = key.has_value();
      call.value = key.value_or("");
      if (happens && call.kind == Kind::remove) key.reset();
    } else if (call.kind == Kind::set && happens) {
      key = call.input;
    } else if (call.kind == Kind::append) {
      call.number = static_cast<std::int64_t>(key.value_or("").size() + call.input.size());
      if (happens) key = key.value_or("") + call.input;
    } else if (call.kind == Kind::add) {
      call.refused = !number || key.value_or("").size() > 15;
      if (call.refused) continue;  // too long to add to
      call.number = std::atoll(key.value_or("0").c_str()) + call.delta;
      if (happens) key = std::to_string(call.number);
    } else if (call.kind == Kind::compare_set) {
      call.yes = key ? *key == call.expected : call.expected.empty();
      call.value = key.value_or("");
      if (call.yes && happens) key = call.input;
    }
    calls.push_back(call);
  }
  return calls;
}

std::uint64_t histories() {
  const char* asked = std::getenv("C10DD_HISTORIES");
  return asked == nullptr ? 300 : std::strtoull(asked, nullptr, 10);
}

TEST(Linearize, AcceptsWhatWasMadeOneAtATime) {
  Random random(1);
  for (std::uint64_t i = 0; i < histories(); ++i) {
    ASSERT_EQ(linearize(generate(random)), Verdict::linearizable) << "history " << i;
  }
}

TEST(Linearize, RefusesAnAnswerThatNobodyCanHaveGot) {
  Random random(2);
  std::uint64_t mutated = 0;
  std::uint64_t undecided = 0;
  for (std::uint64_t i = 0; i < histories(); ++i) {
    std::vector<KeyCall> calls = generate(random);
    KeyCall& call = random.pick(calls);
    if (!call.known) continue;
    if (call.kind == Kind::get) {
      call.yes = true;
      call.value = "nobody wrote this";
    } else if (call.kind == Kind::add || call.kind == Kind::append) {
      call.number += 1'000'000;
    } else if (call.kind == Kind::compare_set) {
      call.yes = false;
      call.value = "nobody wrote this";
    } else {
      continue;
    }
    ++mutated;
    const Verdict verdict = linearize(calls);
    ASSERT_NE(verdict, Verdict::linearizable) << "history " << i;
    undecided += verdict == Verdict::undecided ? 1 : 0;
  }
  EXPECT_GT(mutated, histories() / 3);
  EXPECT_LE(undecided, histories() / 1000) << "the search gives up too early";
}

}  // namespace
}  // namespace c10dd::history
