// SPDX-License-Identifier: Apache-2.0
// What forked children have of the parent's descriptors, objects and threads: real forks.
#include <gtest/gtest.h>

#include <memory>

#include "client/errors.h"
#include "client/internal/fork_closed.h"
#include "client/internal/fork_guard.h"
#include "client/internal/per_process.h"
#include "client/internal/socket.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/client/thrown_error.h"

namespace c10dd::client {
namespace {

using test::holds_in_child;
using test::Pipe;

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// ---- descriptors -------------------------------------------------------------------------------

TEST(ForkClosedTest, AChildHasOnlyTheDescriptorsThatAreNotRegistered) {
  const Pipe first;
  const Pipe second;
  fcntl(first.in(), F_SETFD, 0);
  const ForkClosed one(first.in());
  const ForkClosed two(second.in());
  EXPECT_NE(fcntl(first.in(), F_GETFD) & FD_CLOEXEC, 0) << "nor does a program have it";
  EXPECT_TRUE(holds_in_child([&] {
    return !is_open(first.in()) && !is_open(second.in()) && is_open(first.out()) &&
           is_open(second.out()) && one.closed() && two.closed();
  }));
  EXPECT_TRUE(is_open(first.in()) && is_open(second.in()));
  EXPECT_FALSE(one.closed() || two.closed());
}

TEST(ForkClosedTest, OneThatHasEndedClosesNothing) {
  const Pipe pipe;
  { const ForkClosed ended(pipe.in()); }
  EXPECT_TRUE(holds_in_child([&] { return is_open(pipe.in()); }));
  const ForkClosed none;
  EXPECT_TRUE(holds_in_child([&] { return !none.closed(); }));
}

TEST(ForkClosedTest, APlaceThatIsFreeAgainServesTheNext) {
  const Pipe first;
  const Pipe second;
  for (int round = 0; round < 2; ++round) {
    const ForkClosed one(first.in());
    { const ForkClosed ended(first.out()); }
    const ForkClosed two(second.in());
    EXPECT_TRUE(holds_in_child(
        [&] { return !is_open(first.in()) && is_open(first.out()) && !is_open(second.in()); }));
  }
}

TEST(ForkClosedTest, MovesWithItsOwner) {
  const Pipe first;
  const Pipe second;
  ForkClosed one(first.in());
  ForkClosed moved(std::move(one));
  ForkClosed other(second.in());
  other = std::move(moved);  // the second is in `moved` now
  EXPECT_TRUE(holds_in_child([&] { return !is_open(first.in()) && !is_open(second.in()); }));
  moved = ForkClosed();
  EXPECT_TRUE(holds_in_child([&] { return !is_open(first.in()) && is_open(second.in()); }));
  EXPECT_FALSE(one.closed());  // NOLINT(bugprone-use-after-move)
}

TEST(ForkClosedTest, AGrandchildClosesNothingThatTheChildHasOpened) {
  const Pipe pipe;
  const ForkClosed registered(pipe.in());
  EXPECT_TRUE(holds_in_child([&] {
    const int again = dup2(pipe.out(), pipe.in());  // the same number, for something else
    return holds_in_child([&] { return is_open(again); });
  }));
}

TEST(ForkClosedTest, ADescriptorThatAChildHasClosedClosesNoOther) {
  const Pipe pipe;
  auto owned = std::make_unique<Descriptor>(fcntl(pipe.in(), F_DUPFD_CLOEXEC, 0));
  owned->close_in_children();
  const int number = owned->get();
  EXPECT_TRUE(holds_in_child([&] {
    if (is_open(number)) return false;
    dup2(pipe.out(), number);
    owned.reset();
    return is_open(number);
  }));
  owned.reset();
  EXPECT_FALSE(is_open(number));
  const Descriptor next(fcntl(pipe.in(), F_DUPFD_CLOEXEC, number));
  EXPECT_EQ(next.get(), number);
  EXPECT_TRUE(holds_in_child([&] { return is_open(number); }));
}

TEST(ForkClosedTest, DescriptorsMoveAndCloseOnce) {
  const Pipe pipe;
  Descriptor first(fcntl(pipe.in(), F_DUPFD_CLOEXEC, 0));
  Descriptor second(fcntl(pipe.in(), F_DUPFD_CLOEXEC, 0));
  const int a = first.get();
  const int b = second.get();
  first.close_in_children();
  Descriptor moved(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.get(), a);
  moved = std::move(second);
  EXPECT_EQ(moved.get(), b);
  EXPECT_TRUE(holds_in_child([&] { return !is_open(a) && is_open(b); }));
  second = Descriptor();
  EXPECT_FALSE(is_open(a));
  EXPECT_TRUE(is_open(b));
  moved = Descriptor();
  EXPECT_FALSE(is_open(b));
}

// ---- objects -----------------------------------------------------------------------------------

TEST(HomeProcessTest, KnowsAChildAndAGrandchild) {
  const HomeProcess home;
  const HomeProcess copy = home;
  EXPECT_FALSE(home.forked());
  home.require("client", "connect again");
  const std::string parent = std::to_string(getpid());
  EXPECT_TRUE(holds_in_child([&] {
    const HomeProcess own;
    const auto [code, text] = test::error_of([&] { home.require("client", "connect again"); });
    return home.forked() && copy.forked() && !own.forked() && code == Code::forked &&
           text.find("this client belongs to process " + parent) != std::string::npos &&
           text.find("connect again after fork") != std::string::npos &&
           holds_in_child([&] { return home.forked() && own.forked(); });
  }));
  EXPECT_FALSE(home.forked());
}

/// Counts how many of it have been destroyed.
struct Counted {
  explicit Counted(int& destroyed) : count(destroyed) {}
  ~Counted() { ++count; }
  Counted(const Counted&) = delete;

  int& count;
};

TEST(HomeProcessTest, AnObjectIsDestroyedOnlyInItsProcess) {
  int destroyed = 0;
  auto object = owned_by_this_process(new Counted(destroyed));
  EXPECT_TRUE(holds_in_child([&] {
    auto* const raw = object.get();
    object.reset();
    if (destroyed != 0) return false;
    delete raw;  // so that a leak check finds nothing
    auto own = owned_by_this_process(new Counted(destroyed));
    own.reset();
    return destroyed == 2;
  }));
  EXPECT_EQ(destroyed, 0);
  auto copy = object;
  object.reset();
  EXPECT_EQ(destroyed, 0);
  copy.reset();
  EXPECT_EQ(destroyed, 1);
}

struct First {
  int value = 1;
};
struct Second {
  int value = 1;
};

TEST(PerProcessTest, AProcessHasOneOfEachTypeAndAChildItsOwn) {
  of_this_process<First>().value = 2;
  EXPECT_EQ(of_this_process<First>().value, 2);
  EXPECT_EQ(of_this_process<Second>().value, 1);
  EXPECT_TRUE(holds_in_child([] {
    if (of_this_process<First>().value != 1) return false;
    of_this_process<First>().value = 3;
    return of_this_process<First>().value == 3 &&
           holds_in_child([] { return of_this_process<First>().value == 1; });
  }));
  EXPECT_EQ(of_this_process<First>().value, 2);
}

}  // namespace
}  // namespace c10dd::client
