// SPDX-License-Identifier: Apache-2.0
// One contract over all stores of the SDK, see store_kinds.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "client/errors.h"
#include "client/store.h"
#include "protocol/limits.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/client/store_kinds.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

class StoreContract : public testing::TestWithParam<test::StoreKind> {
 protected:
  void SetUp() override {
    if (const std::string absent = GetParam().absent(); !absent.empty()) GTEST_SKIP() << absent;
    store_ = GetParam().make();
  }
  bool lacks(const char* what) const { return GetParam().lacks.contains(what); }

  std::shared_ptr<Store> store_;
};

/// Skips a test of something that this store cannot do. LacksOnlyWhatItSays has that.
#define NEEDS(what) \
  if (lacks(what)) GTEST_SKIP() << "this store has no " << (what)

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract, testing::ValuesIn(test::store_kinds()),
                         [](const auto& kind) { return kind.param.name; });

/// The code of the error that f throws; ok when it throws none.
template <class F>
Code code_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()), "");
    return e.code();
  }
  return Code::ok;
}

TEST_P(StoreContract, GetsWhatWasSet) {
  const std::string binary("\0\xff\n\x01", 4);
  store_->set("k", "v");
  store_->set(binary, binary);
  store_->set("empty", "");
  EXPECT_EQ(store_->get("k"), "v");
  EXPECT_EQ(store_->get(binary), binary);
  EXPECT_EQ(store_->get("empty"), "");
  store_->set("k", "w");
  EXPECT_EQ(store_->get("k"), "w");
}

TEST_P(StoreContract, GetWaitsForTheKey) {
  auto value = std::async(std::launch::async, [&] { return store_->get("late", 60s); });
  EXPECT_EQ(value.wait_for(20ms), std::future_status::timeout);
  store_->set("other", "x");
  store_->set("late", "here");
  EXPECT_EQ(value.get(), "here");
}

TEST_P(StoreContract, GetWithoutTimeLooksOnce) {
  EXPECT_THROW(store_->get("absent", 0s), NotFound);
  store_->set("present", "v");
  EXPECT_EQ(store_->get("present", 0s), "v");
}

TEST_P(StoreContract, GetTimesOutAndNamesTheKey) {
  try {
    store_->get("absent", 20ms);
    FAIL() << "the key does not exist";
  } catch (const TimedOut& e) {
    EXPECT_NE(std::string(e.what()).find("timed out after 0.02 s: 1 of 1 keys missing: "),
              std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("absent"), std::string::npos) << e.what();
  }
}

TEST_P(StoreContract, TheDefaultTimeoutHoldsWhenNoneIsGiven) {
  EXPECT_EQ(store_->default_timeout(), 300s);
  store_->set_default_timeout(10ms);
  EXPECT_THROW(store_->get("absent"), TimedOut);
  EXPECT_THROW(store_->wait({"absent"}), TimedOut);
  EXPECT_THROW(store_->multi_get({"absent"}), TimedOut);
}

TEST_P(StoreContract, WaitReturnsWhenAllKeysExist) {
  store_->wait({}, 0s);
  store_->set("a", "1");
  auto waiting = std::async(std::launch::async, [&] { store_->wait({"a", "b", "c"}, 60s); });
  store_->set("c", "1");
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  store_->set("b", "1");
  EXPECT_NO_THROW(waiting.get());
}

TEST_P(StoreContract, WaitNamesOnlyTheMissingKeys) {
  store_->set("here", "1");
  try {
    store_->wait({"here", "gone1", "gone2"}, 20ms);
    FAIL() << "two keys do not exist";
  } catch (const TimedOut& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("2 of 3 keys missing"), std::string::npos) << text;
    EXPECT_NE(text.find("gone1"), std::string::npos) << text;
    EXPECT_NE(text.find("gone2"), std::string::npos) << text;
    EXPECT_EQ(text.find("here"), std::string::npos) << text;
  }
  EXPECT_THROW(store_->wait({"gone1"}, 0s), TimedOut);
}

TEST_P(StoreContract, ChecksThatAllKeysExist) {
  store_->set("a", "1");
  store_->set("b", "");
  EXPECT_TRUE(store_->check({}));
  EXPECT_TRUE(store_->check({"a", "b"}));
  EXPECT_FALSE(store_->check({"a", "c"}));
}

TEST_P(StoreContract, AddCountsInDecimal) {
  EXPECT_EQ(store_->add("n", 5), 5);
  EXPECT_EQ(store_->add("n", -7), -2);
  EXPECT_EQ(store_->get("n"), "-2");
  store_->set("n", "40");
  EXPECT_EQ(store_->add("n", 2), 42);
  EXPECT_EQ(store_->add("zero", 0), 0);
  EXPECT_EQ(store_->get("zero"), "0");
}

TEST_P(StoreContract, AddRefusesWhatIsNoNumberAndWhatOverflows) {
  Keys texts = {"", "x", "9223372036854775808"};
  if (!lacks("strict_add")) texts.insert(texts.end(), {"1x", " 1"});
  for (const std::string& text : texts) {
    store_->set("text", text);
    EXPECT_EQ(code_of([&] { store_->add("text", 1); }), Code::wrong_type) << text;
    EXPECT_EQ(store_->get("text"), text);
  }
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  store_->set("most", most);
  EXPECT_EQ(code_of([&] { store_->add("most", 1); }), Code::out_of_range);
  NEEDS("strict_add");
  EXPECT_EQ(store_->get("most"), most);
}

TEST_P(StoreContract, AddsOfManyThreadsAllCount) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 200;
  std::vector<std::future<void>> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.push_back(std::async(std::launch::async, [&] {
      for (int i = 0; i < kAdds; ++i) store_->add("n", 1);
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_EQ(store_->get("n"), std::to_string(kThreads * kAdds));
}

TEST_P(StoreContract, AppendsToTheEndOfAValue) {
  NEEDS("append");
  EXPECT_EQ(store_->append("k", "ab"), 2u);
  EXPECT_EQ(store_->append("k", ""), 2u);
  EXPECT_EQ(store_->append("k", std::string("\0c", 2)), 4u);
  EXPECT_EQ(store_->get("k"), std::string("ab\0c", 4));
  EXPECT_EQ(store_->append("empty", ""), 0u);
  EXPECT_EQ(store_->get("empty", 0s), "");
  store_->set("large", std::string(limits::kValueBytes - 1, 'v'));
  EXPECT_EQ(store_->append("large", "v"), limits::kValueBytes);
  EXPECT_EQ(code_of([&] { store_->append("large", "v"); }), Code::too_large);
  EXPECT_EQ(store_->get("large").size(), limits::kValueBytes);
}

TEST_P(StoreContract, AppendWakesWhoWaitsForTheKey) {
  NEEDS("append");
  auto value = std::async(std::launch::async, [&] { return store_->get("late", 60s); });
  EXPECT_EQ(value.wait_for(20ms), std::future_status::timeout);
  store_->append("late", "x");
  EXPECT_EQ(value.get(), "x");
}

TEST_P(StoreContract, CompareSetStoresOnlyWhenTheValueIsExpected) {
  EXPECT_EQ(store_->compare_set("k", "old", "new"), "old") << "missing key: expected comes back";
  EXPECT_FALSE(store_->check({"k"}));
  EXPECT_EQ(store_->compare_set("k", "", "first"), "first");
  EXPECT_EQ(store_->compare_set("k", "", "second"), "first");
  EXPECT_EQ(store_->compare_set("k", "other", "second"), "first");
  EXPECT_EQ(store_->compare_set("k", "first", "second"), "second");
  EXPECT_EQ(store_->get("k"), "second");
  EXPECT_EQ(store_->compare_set("k", "second", ""), "");
  EXPECT_TRUE(store_->check({"k"}));
}

TEST_P(StoreContract, CompareSetHasOneWinner) {
  constexpr int kThreads = 4;
  std::atomic<int> winners = 0;
  std::vector<std::future<void>> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.push_back(std::async(std::launch::async, [&, t] {
      const std::string mine = "thread " + std::to_string(t);
      if (store_->compare_set("leader", "", mine) == mine) ++winners;
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_EQ(winners, 1);
}

TEST_P(StoreContract, RemoveSaysWhetherTheKeyExisted) {
  store_->set("k", "v");
  EXPECT_TRUE(store_->remove("k"));
  EXPECT_FALSE(store_->remove("k"));
  EXPECT_THROW(store_->get("k", 0s), NotFound);
  EXPECT_EQ(store_->add("k", 1), 1);
}

TEST_P(StoreContract, RemovesAllKeysWithAPrefixAndNoQueue) {
  NEEDS("remove_prefix");
  store_->multi_set({"a/1", "a/2", "a", "b"}, {"", "", "", ""});
  store_->queue_push("a/3", "item");
  EXPECT_EQ(store_->remove_prefix("none"), 0u);
  EXPECT_EQ(store_->remove_prefix("a/"), 2u);
  EXPECT_EQ(store_->list(""), (Keys{"a", "b"}));
  EXPECT_EQ(store_->queue_length("a/3"), 1u);
  EXPECT_EQ(store_->remove_prefix(""), 2u);
  EXPECT_EQ(store_->list(""), Keys{});
  EXPECT_EQ(store_->remove_prefix(""), 0u);
  EXPECT_EQ(store_->queue_pop("a/3", 0s), "item");
}

TEST_P(StoreContract, QueuesGiveTheOldestItemFirst) {
  NEEDS("queues");
  const std::string binary("\0\xff", 2);
  EXPECT_EQ(store_->queue_length("q"), 0u);
  EXPECT_EQ(store_->queue_push("q", "first"), 1u);
  EXPECT_EQ(store_->queue_push("q", binary), 2u);
  EXPECT_EQ(store_->queue_push("q", ""), 3u);
  EXPECT_EQ(store_->queue_push("other", "x"), 1u);
  EXPECT_EQ(store_->queue_length("q"), 3u);
  EXPECT_EQ(store_->queue_pop("q", 0s), "first");
  EXPECT_EQ(store_->queue_pop("q"), binary);
  EXPECT_EQ(store_->queue_pop("q", 60s), "");
  EXPECT_EQ(store_->queue_length("q"), 0u);
  EXPECT_EQ(code_of([&] { store_->queue_push("", "v"); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->queue_pop("", 0s); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->queue_length(""); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->queue_push("q", std::string(limits::kValueBytes + 1, 'v')); }),
            Code::too_large);
}

TEST_P(StoreContract, AnEmptyQueueIsNotFoundOrTimesOut) {
  NEEDS("queues");
  EXPECT_THROW(store_->queue_pop("some_queue", 0s), NotFound);
  try {
    store_->queue_pop("some_queue", 20ms);
    FAIL() << "the queue is empty";
  } catch (const TimedOut& e) {
    EXPECT_NE(std::string(e.what()).find("0.02 s"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("some_queue"), std::string::npos) << e.what();
  }
  store_->set_default_timeout(10ms);
  EXPECT_THROW(store_->queue_pop("some_queue"), TimedOut);
}

TEST_P(StoreContract, QueuePopWaitsForAnItem) {
  NEEDS("queues");
  auto popped = std::async(std::launch::async, [&] { return store_->queue_pop("q", 60s); });
  EXPECT_EQ(popped.wait_for(20ms), std::future_status::timeout);
  store_->set("q", "a key, no item");
  store_->queue_push("other", "x");
  EXPECT_EQ(popped.wait_for(20ms), std::future_status::timeout);
  store_->queue_push("q", "item");
  EXPECT_EQ(popped.get(), "item");
  EXPECT_EQ(store_->queue_length("q"), 0u);
}

TEST_P(StoreContract, AQueueWithAnItemCountsAsAKeyForWaitsOnly) {
  NEEDS("queues");
  EXPECT_FALSE(store_->check({"q"}));
  auto waiting = std::async(std::launch::async, [&] { store_->wait({"q"}, 60s); });
  EXPECT_EQ(waiting.wait_for(20ms), std::future_status::timeout);
  store_->queue_push("q", "item");
  EXPECT_NO_THROW(waiting.get());
  EXPECT_TRUE(store_->check({"q"}));
  EXPECT_EQ(store_->list(""), Keys{});
  EXPECT_EQ(store_->count(""), 0u);
  EXPECT_THROW(store_->get("q", 0s), NotFound);
  EXPECT_FALSE(store_->remove("q"));
  store_->set("q", "a key of that name");
  EXPECT_EQ(store_->get("q", 0s), "a key of that name");
  // The daemon keeps an item for the connection that its push has woken, for five seconds. The
  // store may pop over another connection.
  EXPECT_EQ(store_->queue_pop("q", 30s), "item");
  EXPECT_TRUE(store_->remove("q"));
  EXPECT_FALSE(store_->check({"q"}));
}

TEST_P(StoreContract, ItemsOfManyThreadsAreEachTakenOnce) {
  NEEDS("queues");
  constexpr int kThreads = 3;
  constexpr int kItems = 100;
  std::vector<std::future<std::vector<std::string>>> takers;
  takers.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    takers.push_back(std::async(std::launch::async, [&] {
      std::vector<std::string> got;
      for (int i = 0; i < kItems; ++i) got.push_back(store_->queue_pop("q", 60s));
      return got;
    }));
  }
  std::vector<std::string> pushed;
  for (int i = 0; i < kThreads * kItems; ++i) {
    pushed.push_back(std::to_string(1000 + i));
    store_->queue_push("q", pushed.back());
  }
  std::vector<std::string> taken;
  for (auto& taker : takers) {
    const std::vector<std::string> got = taker.get();
    EXPECT_TRUE(std::is_sorted(got.begin(), got.end())) << "the oldest first, to each";
    taken.insert(taken.end(), got.begin(), got.end());
  }
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken, pushed);
}

TEST_P(StoreContract, SetsAndGetsManyAtOnce) {
  NEEDS("multi");
  store_->multi_set({"a", "b", "a"}, {"1", "2", "3"});
  EXPECT_EQ(store_->multi_get({"b", "a", "b"}), (Keys{"2", "3", "2"}));
  EXPECT_EQ(store_->multi_get({}), Keys{});
  auto values = std::async(std::launch::async, [&] {
    return store_->multi_get({"a", "late"}, 60s);
  });
  EXPECT_EQ(values.wait_for(20ms), std::future_status::timeout);
  store_->set("late", "4");
  EXPECT_EQ(values.get(), (Keys{"3", "4"}));
  EXPECT_THROW(store_->multi_get({"a", "absent"}, 0s), NotFound);
  EXPECT_THROW(store_->multi_get({"a", "absent"}, 10ms), TimedOut);
}

TEST_P(StoreContract, RefusesUnequalListsAndChangesNothing) {
  EXPECT_THROW(store_->multi_set({"a", "b"}, {"1"}), InvalidArgument);
  EXPECT_THROW(store_->multi_set({"a", ""}, {"1", "2"}), InvalidArgument);
  EXPECT_FALSE(store_->check({"a"}));
}

TEST_P(StoreContract, ListsInByteOrder) {
  NEEDS("list");
  for (const char* key : {"b", "a/2", "a/10", "a", "a0", "\xff"}) store_->set(key, "");
  EXPECT_EQ(store_->list("a/"), (Keys{"a/10", "a/2"}));
  EXPECT_EQ(store_->list(""), (Keys{"a", "a/10", "a/2", "a0", "b", "\xff"}));
  EXPECT_EQ(store_->list("none"), Keys{});
  EXPECT_EQ(store_->count("a"), 4u);
  EXPECT_EQ(store_->count(""), 6u);
}

TEST_P(StoreContract, ListsMoreThanOnePage) {
  NEEDS("multi");
  NEEDS("list");
  const std::size_t n = limits::kListPageKeys + 5'000;
  Keys keys;
  for (std::size_t i = 0; i < n; ++i) keys.push_back("key/" + std::to_string(1'000'000 + i));
  store_->multi_set(keys, Keys(n));
  EXPECT_EQ(store_->list("key/"), keys);
  EXPECT_EQ(store_->count("key/"), n);
}

TEST_P(StoreContract, KeepsTheLimitsOfKeysAndValues) {
  EXPECT_EQ(code_of([&] { store_->set("", "v"); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->get("", 0s); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->wait({""}, 0s); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->add("", 1); }), Code::invalid_argument);
  EXPECT_EQ(code_of([&] { store_->remove(""); }), Code::invalid_argument);
  const std::string longest(limits::kKeyBytes - 2, 'k');  // with "p/" in front
  store_->set(longest, "v");
  EXPECT_EQ(store_->get(longest), "v");
  const std::string too_long(limits::kKeyBytes + 1, 'k');
  EXPECT_EQ(code_of([&] { store_->set(too_long, "v"); }), Code::too_large);
  EXPECT_EQ(code_of([&] { store_->get(too_long, 0s); }), Code::too_large);
  const std::string largest(limits::kValueBytes, 'v');
  store_->set("large", largest);
  EXPECT_EQ(store_->get("large"), largest);
  EXPECT_EQ(code_of([&] { store_->set("larger", largest + "v"); }), Code::too_large);
  EXPECT_FALSE(store_->check({"larger"}));
}

TEST_P(StoreContract, KeepsTheLimitOfKeysInOneRequest) {
  const Keys keys(limits::kKeysPerRequest + 1, "k");
  store_->set("k", "");
  EXPECT_EQ(code_of([&] { store_->check(keys); }), Code::too_large);
  EXPECT_EQ(code_of([&] { store_->wait(keys, 0s); }), Code::too_large);
  EXPECT_EQ(code_of([&] { store_->multi_get(keys, 0s); }), Code::too_large);
  EXPECT_EQ(code_of([&] { store_->multi_set(keys, keys); }), Code::invalid_argument);
  if (lacks("multi")) return;
  const Keys as_many_as_allowed(limits::kKeysPerRequest, "k");
  store_->multi_set(as_many_as_allowed, as_many_as_allowed);
  EXPECT_EQ(store_->get("k"), "k");
}

TEST_P(StoreContract, IsSharedByAllWhoOpenIt) {
  const auto other = GetParam().again ? GetParam().again() : store_;
  auto value = std::async(std::launch::async, [&] { return other->get("k", 60s); });
  EXPECT_EQ(value.wait_for(20ms), std::future_status::timeout);
  store_->set("k", "v");
  EXPECT_EQ(value.get(), "v");
  EXPECT_EQ(other->add("n", 1), 1);
  EXPECT_EQ(store_->add("n", 1), 2);
  const auto elsewhere = GetParam().make();
  EXPECT_FALSE(elsewhere->check({"k"})) << "two jobs do not meet";
}

TEST_P(StoreContract, LacksOnlyWhatItSays) {
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"append", [&] { store_->append("k", "v"); }},
      {"multi",
       [&] {
         store_->multi_set({"a", "b"}, {"1", "2"});
       }},
      {"multi",
       [&] {
         store_->multi_get({"a", "b"}, 0s);
       }},
      {"list", [&] { store_->list(""); }},
      {"list", [&] { store_->count(""); }},
      {"remove_prefix", [&] { store_->remove_prefix(""); }},
      {"queues", [&] { store_->queue_push("q", "v"); }},
      {"queues", [&] { store_->queue_length("q"); }},
      {"queues", [&] { store_->queue_pop("q", 0s); }}};
  for (const auto& [what, call] : calls) {
    EXPECT_EQ(code_of(call), lacks(what) ? Code::unsupported : Code::ok) << what;
  }
}

TEST(OpenStore, OpensWhatTheUrlNames) {
  const TemporaryDirectory folder;
  const std::string url = "file://" + folder.path() + "/store";
  open_store(url)->set("k", "v");
  EXPECT_EQ(open_store(url)->get("k", 0s), "v");
  EXPECT_EQ(open_store("hash:")->list(""), Keys{});
  test::DaemonProcess daemon("memory:");
  daemon.start();
  const auto store = open_store("c10dd://" + daemon.address() + "/job");
  store->set("k", "v");
  EXPECT_EQ(store->get("k", 0s), "v");
  for (const char* wrong :
       {"", "hash", "file://relative", "redis://host", "redis://host/a/b", "c10dd:"}) {
    EXPECT_THROW(open_store(wrong), InvalidArgument) << wrong;
  }
}

TEST(PrefixStore, SeesOnlyItsOwnKeys) {
  const auto below = make_hash_store();
  const auto a = make_prefix_store("a", below);
  const auto nested = make_prefix_store("b", a);
  a->set("k", "of a");
  nested->set("k", "of b");
  EXPECT_EQ(below->list(""), (Keys{"a/b/k", "a/k"}));
  EXPECT_EQ(nested->list(""), (Keys{"k"}));
  EXPECT_EQ(nested->get("k", 0s), "of b");
  EXPECT_TRUE(nested->remove("k"));
  EXPECT_EQ(a->list(""), (Keys{"k"}));
}

}  // namespace
}  // namespace c10dd
