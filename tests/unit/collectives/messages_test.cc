// SPDX-License-Identifier: Apache-2.0
// Sends and receives on every backend: order, tags, sizes, failures.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "collectives/message_matcher.h"
#include "collectives/process_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::open_groups;
using test::run_ranks;

class Messages : public ::testing::TestWithParam<std::string> {
 protected:
  GroupOptions options() const { return {.backend = GetParam(), .timeout = 60s}; }
};

std::vector<std::int32_t> numbers(std::size_t count, std::int32_t first) {
  std::vector<std::int32_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

TEST_P(Messages, OfEverySizeArriveInOrder) {
  const auto groups = open_groups(2, options());
  const std::vector<std::size_t> sizes = {0, 1, 1023, 1024, 1025, 100'003};
  run_ranks(2, [&](Rank rank) {
    for (const std::size_t size : sizes) {
      for (std::int32_t i = 0; i < 3; ++i) {
        std::vector<std::int32_t> values = rank == 0 ? numbers(size, i) : numbers(size, -1);
        if (rank == 0) {
          groups[0]->send(tensor_of(values), 1, 7);
        } else {
          const WorkPtr work = groups[1]->recv(tensor_of(values), 0, 7);
          EXPECT_EQ(values, numbers(size, i));
          EXPECT_EQ(work->received().source, 0u);
          EXPECT_EQ(work->received().tag, 7u);
          EXPECT_EQ(work->received().count, size);
        }
      }
    }
  });
}

TEST_P(Messages, LargeOnesBothWaysAtOnceArrive) {
#ifdef __SANITIZE_THREAD__
  constexpr std::size_t kCount = std::size_t{1} << 18;
#else
  constexpr std::size_t kCount = std::size_t{1} << 24;  // 64 MiB
#endif
  const auto groups = open_groups(2, options());
  run_ranks(2, [&](Rank rank) {
    std::vector<std::int32_t> out = numbers(kCount, static_cast<std::int32_t>(rank));
    std::vector<std::int32_t> in(kCount);
    const WorkPtr sent = groups[rank]->isend(tensor_of(out), 1 - rank);
    const WorkPtr received = groups[rank]->irecv(tensor_of(in), 1 - rank);
    sent->wait();
    received->wait();
    EXPECT_TRUE(in == numbers(kCount, static_cast<std::int32_t>(1 - rank)));
  });
}

TEST_P(Messages, ATagSelectsAndOthersWait) {
  const auto groups = open_groups(2, options());
  std::vector<std::int32_t> one = {1};
  std::vector<std::int32_t> two = {2};
  std::vector<std::int32_t> got = {0};
  const WorkPtr first = groups[0]->isend(tensor_of(one), 1, 1);
  const WorkPtr second = groups[0]->isend(tensor_of(two), 1, 2);
  groups[1]->recv(tensor_of(got), 0, 2);
  EXPECT_EQ(got[0], 2);
  const WorkPtr any = groups[1]->recv(tensor_of(got), 0, kAnyTag);
  EXPECT_EQ(got[0], 1);
  EXPECT_EQ(any->received().tag, 1u);
  first->wait();
  second->wait();
}

TEST_P(Messages, OfAnySourceNameTheirSource) {
  constexpr Rank kSize = 4;
  const auto groups = open_groups(kSize, options());
  run_ranks(kSize, [&](Rank rank) {
    if (rank != 0) {
      std::vector<std::int32_t> own(rank, static_cast<std::int32_t>(rank));
      groups[rank]->send(tensor_of(own), 0, 10 + rank);
      return;
    }
    std::vector<Rank> sources;
    for (Rank i = 1; i < kSize; ++i) {
      std::vector<std::int32_t> values(10, -1);
      const Received got = groups[0]->recv(tensor_of(values), kAnyRank, kAnyTag)->received();
      EXPECT_EQ(got.count, got.source);
      EXPECT_EQ(got.tag, 10 + got.source);
      EXPECT_EQ(values[got.count - 1], static_cast<std::int32_t>(got.source));
      EXPECT_EQ(values[got.count], -1);
      sources.push_back(got.source);
    }
    std::sort(sources.begin(), sources.end());
    EXPECT_EQ(sources, (std::vector<Rank>{1, 2, 3}));
  });
}

TEST_P(Messages, ThatDoNotFitFailOnBothSidesAndTheGroupLivesOn) {
  const auto groups = open_groups(2, options());
  for (const std::size_t count : {std::size_t{5}, std::size_t{100'000}}) {
    std::vector<float> large(count);
    std::vector<float> small(4, 3.0f);
    const WorkPtr sent = groups[0]->isend(tensor_of(large), 1, 9);
    const WorkPtr got = groups[1]->irecv(tensor_of(small), 0, 9);
    for (const WorkPtr& work : {sent, got}) {
      EXPECT_THROW(work->wait(), Error);
      EXPECT_EQ(work->code(), Code::size_mismatch);
      EXPECT_TRUE(contains(work->error(), "message of " + std::to_string(count) +
                                              " float32 elements from rank 0 to rank 1, tag 9"))
          << work->error();
      EXPECT_TRUE(contains(work->error(), "recv, which has 4 float32 elements")) << work->error();
    }
    EXPECT_EQ(small[0], 3.0f);
  }
  std::vector<double> wrong(4);
  std::vector<float> small(4);
  const WorkPtr sent = groups[0]->isend(tensor_of(small), 1);
  EXPECT_THROW(groups[1]->recv(tensor_of(wrong), 0), Error);
  EXPECT_THROW(sent->wait(), Error);
  run_ranks(2, [&](Rank rank) {
    std::vector<float> values = {1.0f};
    groups[rank]->all_reduce(tensor_of(values));
    EXPECT_EQ(values[0], 2.0f);
    rank == 0 ? groups[0]->send(tensor_of(values), 1) : groups[1]->recv(tensor_of(values), 0);
  });
}

TEST_P(Messages, ThatWaitForTheirPeerHoldUpNothing) {
  const auto groups = open_groups(2, options());
  std::vector<std::vector<float>> in(2, std::vector<float>(1));
  std::vector<WorkPtr> waiting;
  for (Rank rank = 0; rank < 2; ++rank) {
    waiting.push_back(groups[rank]->irecv(tensor_of(in[rank]), 1 - rank, 1));
  }
  run_ranks(2, [&](Rank rank) {
    EXPECT_FALSE(waiting[rank]->test());
    std::vector<float> values = {1.0f};
    const WorkPtr sum = groups[rank]->all_reduce(tensor_of(values));
    EXPECT_EQ(sum->sequence(), 0u);  // messages have numbers of their own
    std::vector<float> out = {static_cast<float>(rank)};
    groups[rank]->send(tensor_of(out), 1 - rank, 1);
  });
  for (Rank rank = 0; rank < 2; ++rank) {
    waiting[rank]->wait();
    EXPECT_EQ(in[rank][0], static_cast<float>(1 - rank));
  }
}

TEST_P(Messages, ManyMayBeSentBeforeTheFirstIsReceived) {
  const auto groups = open_groups(2, options());
  constexpr std::size_t kMessages = 100;
  std::vector<std::vector<std::int32_t>> out;
  std::vector<WorkPtr> works;
  for (std::size_t i = 0; i < kMessages; ++i) {
    out.push_back(numbers(1000, static_cast<std::int32_t>(i)));  // 400 KB together
    works.push_back(groups[0]->isend(tensor_of(out.back()), 1));
  }
  for (std::size_t i = 0; i < kMessages; ++i) {
    std::vector<std::int32_t> in(1000);
    groups[1]->recv(tensor_of(in), 0);
    ASSERT_EQ(in, out[i]);
  }
  for (const WorkPtr& work : works) work->wait();
}

TEST_P(Messages, TimeOutNamesThePeerAndEndsTheGroup) {
  const auto groups = open_groups(2, options());
  std::vector<float> values(3);
  try {
    groups[0]->recv(tensor_of(values), 1, 5, {.timeout = 100ms});
    ADD_FAILURE() << "rank 1 has sent nothing";
  } catch (const TimedOut& late) {
    EXPECT_TRUE(contains(late.what(), "recv 0 from rank 1, tag 5 timed out after 0.1 s"))
        << late.what();
    ASSERT_EQ(late.missing().size(), 1u);
    EXPECT_EQ(late.missing()[0].rank, 1u);
  }
  EXPECT_THROW(groups[0]->barrier(), TimedOut);
}

TEST_P(Messages, AbortEndsThoseThatWait) {
  const auto groups = open_groups(3, options());
  std::vector<float> values(3);
  std::vector<float> large(100'000);
  const std::vector<WorkPtr> works = {groups[0]->irecv(tensor_of(values), 1),
                                      groups[0]->irecv(tensor_of(values), kAnyRank, 3),
                                      groups[0]->isend(tensor_of(large), 2)};
  groups[0]->abort("enough of it");
  for (const WorkPtr& work : works) {
    EXPECT_THROW(work->wait(10s), Aborted);
    EXPECT_TRUE(contains(work->error(), "enough of it")) << work->error();
  }
}

TEST_P(Messages, APeerThatClosesItsGroupEndsThoseThatWaitForIt) {
  auto groups = open_groups(3, options());
  std::vector<float> values(3);
  const WorkPtr work = groups[0]->irecv(tensor_of(values), 2);
  groups[2].reset();
  EXPECT_THROW(work->wait(10s), Error);
  EXPECT_TRUE(contains(work->error(), "rank 2")) << work->error();
}

TEST_P(Messages, APeerThatHasClosedItsGroupEndsWhatIsStartedLater) {
  for (const Rank source : {Rank{1}, kAnyRank}) {
    auto groups = open_groups(2, options());
    groups[1].reset();
    std::vector<float> values(3);
    EXPECT_THROW(groups[0]->recv(tensor_of(values), source), Error);
    EXPECT_THROW(groups[0]->send(tensor_of(values), 1), Error);
  }
}

TEST_P(Messages, OfAnySourceComeFromThePeersThatAreLeft) {
  auto groups = open_groups(3, options());
  groups[2].reset();
  std::vector<float> values(3);
  if (GetParam() == "loopback") {  // such a group ends with its first rank
    EXPECT_THROW(groups[0]->recv(tensor_of(values), kAnyRank), Aborted);
    return;
  }
  const WorkPtr got = groups[0]->irecv(tensor_of(values), kAnyRank);
  std::vector<float> out = {1, 2, 3};
  groups[1]->send(tensor_of(out), 0);
  got->wait(10s);
  EXPECT_EQ(values, out);
}

TEST_P(Messages, AMessageThatHasArrivedIsDeliveredAfterItsSenderHasLeft) {
  auto groups = open_groups(2, options());
  std::vector<std::vector<std::int32_t>> out = {numbers(10, 0), numbers(10, 1)};
  std::vector<WorkPtr> sent;
  std::promise<void> left;
  for (auto& one : out) sent.push_back(groups[0]->isend(tensor_of(one), 1));
  // The thread that ends the first send is kept busy until the receiver has left.
  sent[0]->on_end([wait = left.get_future().share()](Work&) { wait.wait_for(2s); });
  std::vector<std::int32_t> in(10);
  const WorkPtr second = [&] {
    const WorkPtr first = groups[1]->irecv(tensor_of(in), 0);
    std::vector<std::int32_t> more(10);
    if (GetParam() == "loopback") left.set_value();  // there the same thread ends both
    const WorkPtr last = groups[1]->irecv(tensor_of(more), 0);
    first->wait();
    last->wait();
    return last;
  }();
  groups[1].reset();
  if (GetParam() != "loopback") left.set_value();
  sent[1]->wait(10s);
  EXPECT_EQ(second->status(), Work::Status::done);
}

TEST_P(Messages, ACallbackMayDropTheGroupWhileOthersFail) {
  for (int round = 0; round < 5; ++round) {
    auto groups = open_groups(2, options());
    std::vector<std::vector<float>> in(4, std::vector<float>(3));
    std::vector<WorkPtr> works;
    std::promise<void> dropped;
    for (auto& one : in) works.push_back(groups[0]->irecv(tensor_of(one), 1));
    works[0]->on_end([&](Work&) {
      groups[0].reset();
      dropped.set_value();
    });
    groups[1].reset();
    ASSERT_EQ(dropped.get_future().wait_for(20s), std::future_status::ready);
    for (const WorkPtr& work : works) EXPECT_EQ(work->status(), Work::Status::failed);
  }
}

TEST_P(Messages, ACallbackMayDropTheGroup) {
  for (int round = 0; round < 5; ++round) {
    auto groups = open_groups(2, options());
    std::vector<float> values(3);
    std::promise<void> dropped;
    groups[0]->irecv(tensor_of(values), 1)->on_end([&](Work&) {
      groups[0].reset();
      dropped.set_value();
    });
    std::vector<float> out(3, 1.0f);
    const WorkPtr sent = groups[1]->isend(tensor_of(out), 0);
    dropped.get_future().wait();
    sent->wait(10s);
    EXPECT_EQ(values[2], 1.0f);
  }
}

TEST_P(Messages, BadArgumentsAreRefused) {
  const auto groups = open_groups(2, options());
  std::vector<float> values(3);
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  ProcessGroup& group = *groups[0];
  const Tensor tensor = tensor_of(values);
  EXPECT_EQ(error_of([&] { group.send(tensor, 2); }),
            "send: peer 2 is not a rank of process group \"world\", which has 2 ranks");
  EXPECT_EQ(error_of([&] { group.send(tensor, kAnyRank); }),
            "send: peer 4294967295 is not a rank of process group \"world\", which has 2 ranks");
  EXPECT_EQ(error_of([&] { group.recv(tensor, 0); }),
            "recv: peer 0 is this rank itself; use another rank");
  EXPECT_TRUE(contains(error_of([&] { group.send(tensor, 1, kAnyTag); }), "is reserved"));
  EXPECT_TRUE(contains(error_of([&] { group.send({.count = 3}, 1); }), "send: data is null"));
}

TEST_P(Messages, ThreadsMixMessagesAndCollectives) {
  constexpr Rank kSize = 3;
  const auto groups = open_groups(kSize, options());
  std::vector<std::jthread> threads;
  for (Rank rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {  // collectives: synchronous and asynchronous, in one order
      std::vector<std::int64_t> value = {1};
      std::vector<std::vector<std::int64_t>> more(100, {1});
      std::vector<WorkPtr> works;
      for (int i = 0; i < 100; ++i) {
        auto& own = more[static_cast<std::size_t>(i)];
        works.push_back(groups[rank]->all_reduce(tensor_of(own), ReduceOp::sum, {.async = true}));
        if (i % 2 == 0) groups[rank]->barrier();
      }
      for (const WorkPtr& work : works) work->wait();
      for (const auto& own : more) EXPECT_EQ(own[0], 3);
    });
    for (std::uint32_t tag = 1; tag <= 3; ++tag) {  // a ring per tag
      threads.emplace_back([&, rank, tag] {
        std::vector<std::int32_t> in(tag * 1000);
        for (std::int32_t i = 0; i < 50; ++i) {
          std::vector<std::int32_t> out = numbers(in.size(), i);
          const WorkPtr sent = groups[rank]->isend(tensor_of(out), (rank + 1) % kSize, tag);
          groups[rank]->recv(tensor_of(in), (rank + kSize - 1) % kSize, tag);
          EXPECT_EQ(in, out);
          sent->wait();
        }
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Messages, ::testing::ValuesIn(test::backends()),
                         [](const auto& instance) { return instance.param; });

struct Offered {
  Rank source;
  std::uint32_t tag;
  int number;
};
struct Posted {
  const Operation* operation;
  int number;
};

TEST(MessageMatcher, FirstPostedGetsFirstArrivedOfThoseThatFit) {
  collectives::MessageMatcher<Offered, Posted> matcher;
  const Operation from_one{.collective = Collective::recv, .peer = 1, .tag = 5};
  const Operation any{.collective = Collective::recv, .peer = kAnyRank, .tag = kAnyTag};
  EXPECT_FALSE(matcher.post({&from_one, 0}));
  EXPECT_FALSE(matcher.post({&any, 1}));
  EXPECT_FALSE(matcher.post({&any, 2}));
  EXPECT_EQ(matcher.offer({1, 5, 0})->number, 0);  // the first that fits, and not the first of all
  EXPECT_EQ(matcher.offer({2, 5, 1})->number, 1);
  EXPECT_EQ(matcher.offer({1, 6, 2})->number, 2);
  const Offered late[] = {{2, 5, 3}, {1, 6, 4}, {1, 5, 5}, {1, 5, 6}};
  for (const Offered& one : late) {
    EXPECT_FALSE(matcher.offer(one));
    matcher.keep(one);
  }
  EXPECT_EQ(matcher.post({&from_one, 3})->number, 5);
  EXPECT_EQ(matcher.post({&any, 4})->number, 3);
  EXPECT_EQ(matcher.post({&from_one, 5})->number, 6);
  EXPECT_FALSE(matcher.post({&from_one, 6}));
  EXPECT_EQ(matcher.offers().size(), 1u);
  EXPECT_EQ(matcher.receives().size(), 1u);
}

}  // namespace
}  // namespace c10dd
