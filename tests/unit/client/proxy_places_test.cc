// SPDX-License-Identifier: Apache-2.0
// Which clients a full node proxy serves, and when.
#include "client/core/proxy_places.h"

#include <gtest/gtest.h>

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using Entry = ProxyPlaces::Entry;
using Kind = ProxyPlaces::Move::Kind;
using Move = ProxyPlaces::Move;

constexpr TimePoint at(Duration since) { return TimePoint{} + 100s + since; }

/// Two places, and the clients 1 and 2 that have sent nothing.
class ProxyPlacesTest : public testing::Test {
 protected:
  ProxyPlacesTest() {
    EXPECT_EQ(places_.arrive(1, at(0s)), Entry::served);
    EXPECT_EQ(places_.arrive(2, at(1s)), Entry::served);
  }
  void expect_nothing(TimePoint now) { EXPECT_EQ(places_.next(now), std::nullopt); }

  ProxyPlaces places_{2};
};

TEST_F(ProxyPlacesTest, SilentClientsStayWhileNobodyWaits) {
  expect_nothing(at(1h));
  EXPECT_EQ(places_.next_deadline(), std::nullopt);
  EXPECT_EQ(places_.served(), 2u);
}

TEST_F(ProxyPlacesTest, TheOneThatIsSilentForLongestGivesWayAfterFiveSeconds) {
  EXPECT_EQ(places_.arrive(3, at(2s)), Entry::waits);
  EXPECT_EQ(places_.arrive(4, at(2s)), Entry::waits);
  EXPECT_EQ(places_.arrive(5, at(2s)), Entry::refused) << "nobody would give way to a third one";
  expect_nothing(at(5s - 1ns));
  EXPECT_EQ(places_.next_deadline(), at(5s));
  EXPECT_EQ(places_.next(at(5s)), (Move{Kind::close, 1}));
  places_.leave(1);
  EXPECT_EQ(places_.next(at(5s)), (Move{Kind::serve, 3}));
  expect_nothing(at(5s));
  EXPECT_EQ(places_.next_deadline(), at(6s));
  EXPECT_EQ(places_.next(at(6s)), (Move{Kind::close, 2}));
  places_.leave(2);
  EXPECT_EQ(places_.next(at(6s)), (Move{Kind::serve, 4}));
  EXPECT_EQ(places_.arrive(5, at(6s)), Entry::waits);
  EXPECT_EQ(places_.next_deadline(), at(10s)) << "the silence of 3 began with its place";
}

TEST_F(ProxyPlacesTest, WhoHasBeenHeardKeepsItsPlace) {
  places_.heard(1);
  EXPECT_EQ(places_.arrive(3, at(2s)), Entry::waits);
  EXPECT_EQ(places_.next(at(1h)), (Move{Kind::close, 2}));
  places_.leave(2);
  EXPECT_EQ(places_.next(at(1h)), (Move{Kind::serve, 3}));
  places_.heard(3);
  EXPECT_EQ(places_.arrive(4, at(1h)), Entry::refused);
  EXPECT_EQ(places_.gives_way(at(2h)), std::nullopt);
}

TEST_F(ProxyPlacesTest, WhoWaitsIsRefusedWhenAllOthersHaveBeenHeard) {
  EXPECT_EQ(places_.arrive(3, at(2s)), Entry::waits);
  EXPECT_EQ(places_.arrive(4, at(2s)), Entry::waits);
  places_.heard(1);
  expect_nothing(at(2s));
  places_.heard(2);
  EXPECT_EQ(places_.next(at(2s)), (Move{Kind::refuse, 3}));
  EXPECT_EQ(places_.next(at(2s)), (Move{Kind::refuse, 4}));
  expect_nothing(at(2s));
}

TEST_F(ProxyPlacesTest, WhoWaitsGetsThePlaceOfOneThatLeaves) {
  EXPECT_EQ(places_.arrive(3, at(2s)), Entry::waits);
  places_.leave(2);
  EXPECT_EQ(places_.arrive(4, at(2s)), Entry::refused) << "3 was first";
  EXPECT_EQ(places_.next(at(2s)), (Move{Kind::serve, 3}));
  places_.leave(1);
  EXPECT_EQ(places_.arrive(5, at(3s)), Entry::served);
}

TEST_F(ProxyPlacesTest, WithoutDescriptorsASilentClientGivesWayAlthoughThereIsAPlace) {
  places_.leave(2);
  EXPECT_EQ(places_.gives_way(at(5s - 1ns)), std::nullopt);
  EXPECT_EQ(places_.gives_way(at(5s)), 1u);
  places_.leave(1);
  EXPECT_EQ(places_.gives_way(at(1h)), std::nullopt);
}

}  // namespace
}  // namespace c10dd::client
