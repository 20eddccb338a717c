// SPDX-License-Identifier: Apache-2.0
// What a daemon takes for a loss of the shared state, and when it goes on.
#include "daemon/core/fleet/state_watch.h"

#include <gtest/gtest.h>

#include "daemon/core/row_key.h"

namespace c10dd::core {
namespace {

using Verdict = StateWatch::Verdict;

/// Values of rows that have an incarnation.
const Bytes kOne = RowKey('n').number(1).take();
const Bytes kTwo = RowKey('n').number(2).take();

store::FleetReading reading(std::uint64_t heartbeat_count, const Bytes& incarnation = kOne,
                            Revision directory = 5) {
  store::FleetReading reading;
  reading.heartbeat_count = heartbeat_count;
  reading.incarnation = incarnation;
  reading.directory = directory;
  return reading;
}

store::FleetReading accepted(std::uint64_t heartbeat_count, const Bytes& incarnation) {
  store::FleetReading made = reading(heartbeat_count, incarnation);
  made.accepted = incarnation;
  return made;
}

/// A watch that knows a heartbeat count of 10.
StateWatch known() {
  StateWatch watch;
  EXPECT_EQ(watch.read(reading(10)), Verdict::good);
  return watch;
}

TEST(StateWatch, TheFirstStateIsGoodWhateverItIs) {
  StateWatch watch;
  EXPECT_EQ(watch.read(reading(0, "", 0)), Verdict::good);
  watch.opened(kOne);
  EXPECT_EQ(watch.mark().incarnation, kOne);
  EXPECT_EQ(watch.read(reading(3)), Verdict::good);
  EXPECT_EQ(watch.mark(), (StateMark{kOne, 3, 5}));
  EXPECT_FALSE(watch.must_tell());
}

TEST(StateWatch, ALowerNumberIsALossThatAllAreTold) {
  StateWatch heartbeat_count = known();
  EXPECT_EQ(heartbeat_count.read(reading(10)), Verdict::good);
  EXPECT_EQ(heartbeat_count.read(reading(9)), Verdict::rolled_back);
  EXPECT_NE(
      heartbeat_count.rolled_back().find("has heartbeat count 9, but the count was 10 before"),
      std::string::npos);
  EXPECT_TRUE(heartbeat_count.must_tell());
  EXPECT_EQ(heartbeat_count.read(reading(12)), Verdict::rolled_back) << "what was lost stays lost";

  StateWatch directory = known();
  EXPECT_EQ(directory.read(reading(11, kOne, 4)), Verdict::rolled_back);
  EXPECT_NE(directory.rolled_back().find("revision 4, but revision 5 was durable"),
            std::string::npos);
}

TEST(StateWatch, AnotherIncarnationIsALoss) {
  StateWatch erased = known();
  EXPECT_EQ(erased.read(reading(0, "", 0)), Verdict::rolled_back);
  EXPECT_NE(erased.rolled_back().find("incarnation none instead of 0000000000000001"),
            std::string::npos)
      << erased.rolled_back();
  StateWatch replaced = known();
  EXPECT_EQ(replaced.read(reading(100, kTwo)), Verdict::rolled_back);
}

TEST(StateWatch, WhatAnotherDaemonHasToldIsALoss) {
  StateWatch slept = known();
  store::FleetReading told = reading(20);
  told.rolled_back = "job A is short";
  EXPECT_EQ(slept.read(told), Verdict::rolled_back);
  EXPECT_EQ(slept.rolled_back(), "job A is short");
  EXPECT_FALSE(slept.must_tell());
  EXPECT_EQ(slept.read(reading(21)), Verdict::rolled_back) << "removed by hand, not accepted";
  EXPECT_TRUE(slept.must_tell());
}

TEST(StateWatch, GoesOnWithAnIncarnationThatAnOperatorHasBegun) {
  StateWatch watch = known();
  EXPECT_EQ(watch.read(reading(9)), Verdict::rolled_back);
  store::FleetReading half = accepted(9, kTwo);
  half.rolled_back = "still told";
  EXPECT_EQ(watch.read(half), Verdict::rolled_back);
  EXPECT_EQ(watch.read(accepted(9, kOne)), Verdict::rolled_back) << "the old incarnation";
  EXPECT_EQ(watch.read(accepted(9, kTwo)), Verdict::renewed);
  EXPECT_EQ(watch.rolled_back(), "");
  EXPECT_EQ(watch.mark(), (StateMark{kTwo, 9, 5}));
  EXPECT_EQ(watch.read(accepted(10, kTwo)), Verdict::good);
  EXPECT_EQ(watch.read(accepted(11, kOne)), Verdict::rolled_back) << "it had ended";
}

TEST(StateWatch, ASuspicionIsJudgedByTheNextReading) {
  StateWatch watch = known();
  watch.suspect("job A is at revision 1, but 2 was durable");
  EXPECT_EQ(watch.rolled_back(), "");
  EXPECT_EQ(watch.read(reading(11)), Verdict::rolled_back);
  EXPECT_EQ(watch.rolled_back(), "job A is at revision 1, but 2 was durable");

  StateWatch slept = known();
  slept.suspect("job A is at revision 1, but 2 was durable");
  EXPECT_EQ(slept.read(accepted(3, kTwo)), Verdict::renewed);
  EXPECT_EQ(slept.read(accepted(4, kTwo)), Verdict::good);
}

TEST(StateWatch, AMarkIsWhatAnEarlierProcessHasKnown) {
  EXPECT_EQ(StateWatch({kOne, 10, 5}).read(reading(10)), Verdict::good);
  EXPECT_EQ(StateWatch({kOne, 10, 5}).read(reading(9)), Verdict::rolled_back);
  EXPECT_EQ(StateWatch({kOne, 10, 5}).read(reading(90, kTwo)), Verdict::rolled_back);
  EXPECT_EQ(StateWatch({kOne, 10, 5}).read(accepted(3, kTwo)), Verdict::renewed);
  StateWatch accepts({kOne, 10, 5});
  EXPECT_EQ(accepts.read(reading(9)), Verdict::rolled_back);
  accepts.accept(kTwo);
  EXPECT_EQ(accepts.mark(), (StateMark{kTwo, 9, 5}));
  EXPECT_EQ(accepts.read(accepted(10, kTwo)), Verdict::good);
}

}  // namespace
}  // namespace c10dd::core
