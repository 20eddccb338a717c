// SPDX-License-Identifier: Apache-2.0
// Endpoints of the rows: after a restart or a change by another daemon their listeners are those of
// the rows, a port that is taken is tried again, and the directory knows who has connections.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/comes_true.h"
#include "tests/unit/daemon/endpoint_world.h"

namespace c10dd::daemon {
namespace {

class EndpointRestoreTest : public EndpointWorld {
 protected:
  /// Turns the daemon for longer than the next try again takes: the timer is set after its timer.
  void turn_past_the_retry() {
    bool over = false;
    asio::steady_timer timer(daemon_.loop, 4 * kRetry);
    timer.async_wait([&](const ErrorCode&) { over = true; });
    EXPECT_TRUE(daemon_.turn_until([&] { return over; }));
  }
  bool is_available(const core::Endpoint& one) {
    return listeners_->problem(one).empty() && use(one);
  }
};

TEST_F(EndpointRestoreTest, ListensForThoseOfTheRowsAndNoOthers) {
  const std::uint16_t port = three_free_ports();
  const auto kept = endpoint("digits", "kept", port);
  const auto gone = endpoint("digits", "gone", port + 1);
  listeners_->restore({kept, gone});
  EXPECT_EQ(listeners_->note(), "");
  ASSERT_TRUE(use(kept));
  ASSERT_TRUE(use(gone));
  const auto moved = endpoint("letters", "moved", port + 1, "r");
  listeners_->restore({kept, moved});
  EXPECT_EQ(asked_.size(), 3u) << "the one that is kept is not opened again";
  EXPECT_EQ(listeners_->connections(kept), 1u);
  EXPECT_EQ(listeners_->connections(gone), 0u);
  EXPECT_EQ(listeners_->connections(moved), 0u);
  EXPECT_EQ(asked_.back().tcpstore_job, "letters");
  EXPECT_EQ(asked_.back().tcpstore_run, "r");
  ASSERT_TRUE(use(moved));
  EXPECT_EQ(places(), kPlaces - 2 - 3);
  listeners_->restore({});
  EXPECT_FALSE(connect(port));
  EXPECT_FALSE(connect(port + 1));
  EXPECT_EQ(places(), kPlaces - 3) << "the connections go on";
}

TEST_F(EndpointRestoreTest, AnotherRunOrPortIsAnotherListener) {
  const std::uint16_t port = three_free_ports();
  listeners_->restore({endpoint("digits", "a", port, "r1"), endpoint("digits", "b", port + 1)});
  const auto run = endpoint("digits", "a", port, "r2");
  const auto elsewhere = endpoint("digits", "b", port + 2);
  ASSERT_TRUE(use(run));
  listeners_->restore({run, elsewhere});
  EXPECT_EQ(listeners_->note(), "");
  ASSERT_EQ(asked_.size(), 4u);
  EXPECT_EQ(asked_[2].tcpstore_run, "r2");
  EXPECT_EQ(asked_[2].port, port);
  EXPECT_EQ(asked_[3].port, port + 2);
  EXPECT_EQ(listeners_->connections(run), 0u) << "those of the run before do not count";
  EXPECT_TRUE(use(run));
  EXPECT_TRUE(use(elsewhere));
  EXPECT_FALSE(connect(port + 1));
}

TEST_F(EndpointRestoreTest, TwoPortsThatAreTakenAreTriedAgainUntilEachIsFree) {
  const std::uint16_t port = three_free_ports();
  std::vector<std::optional<PortHolder>> processes(2);
  processes[0].emplace(port);
  processes[1].emplace(port + 1);
  const auto first = endpoint("digits", "a", port);
  const auto second = endpoint("digits", "b", port + 1);
  const auto third = endpoint("digits", "c", port + 2);
  listeners_->restore({first, second, third});
  EXPECT_EQ(places(), kPlaces - 1) << "those that cannot listen hold no place";
  EXPECT_TRUE(is_available(third));
  EXPECT_EQ(listeners_->problem(first),
            "endpoint \"a\" of job \"digits\" cannot listen on " + own_host() + ":" +
                std::to_string(port) +
                ": Address already in use; end the process that has the port, or release the "
                "endpoint");
  EXPECT_EQ(listeners_->note(),
            listeners_->problem(first) + "; 1 more endpoints cannot be reached");
  for (int round = 0; round < 5; ++round) turn_past_the_retry();
  EXPECT_EQ(places(), kPlaces - 2);
  processes[1].reset();
  ASSERT_TRUE(daemon_.turn_until([&] { return listeners_->problem(second).empty(); }));
  EXPECT_TRUE(is_available(second));
  EXPECT_EQ(listeners_->note(), listeners_->problem(first));
  EXPECT_NE(listeners_->note(), "");
  processes[0].reset();
  ASSERT_TRUE(daemon_.turn_until([&] { return listeners_->note().empty(); }));
  EXPECT_TRUE(is_available(first));
  EXPECT_EQ(places(), kPlaces - 6);
  const std::size_t opened = asked_.size();
  turn_past_the_retry();
  EXPECT_EQ(asked_.size(), opened) << "all is well, nothing is tried again";
}

TEST_F(EndpointRestoreTest, OneThatHasNoPlaceSaysSoAndComesWhenThereIsOne) {
  std::vector<Ticket> taken;
  while (places() > 0) taken.push_back(*admission_.enter_own());
  const auto one = endpoint("digits", "a", three_free_ports());
  listeners_->restore({one});
  EXPECT_NE(listeners_->problem(one).find("too many connections and endpoints"), std::string::npos)
      << listeners_->problem(one);
  EXPECT_TRUE(asked_.empty());
  taken.clear();
  EXPECT_TRUE(daemon_.turn_until([&] { return listeners_->problem(one).empty(); }));
  EXPECT_TRUE(is_available(one));
  EXPECT_EQ(places(), kPlaces - 2);
}

TEST_F(EndpointRestoreTest, PortOfANeighbourOnThisHostIsNoProblem) {
  const std::uint16_t port = three_free_ports();
  std::optional<PortHolder> neighbour(port);
  const auto one = endpoint("digits", "a", port);
  join("127.0.0.1:2");
  listeners_->restore({one});
  EXPECT_EQ(listeners_->problem(one), "");
  EXPECT_EQ(listeners_->note(), "");
  EXPECT_EQ(places(), kPlaces);
  turn_past_the_retry();
  EXPECT_EQ(listeners_->note(), "");
  neighbour.reset();  // it has ended
  EXPECT_TRUE(daemon_.turn_until([&] { return !asked_.empty(); }));
  EXPECT_TRUE(use(one));
}

TEST_F(EndpointRestoreTest, PortIsAProblemIfTheOtherDaemonIsElsewhereOrIsNotTheReason) {
  const PortHolder process(0);
  const auto one = endpoint("digits", "a", process.port());
  join("10.0.0.9:2");
  listeners_->restore({one});
  EXPECT_NE(listeners_->problem(one), "");
  listen_on("203.0.113.1");
  join("127.0.0.1:2");
  listeners_->restore({one});
  EXPECT_NE(listeners_->problem(one).find("203.0.113.1:"), std::string::npos);
}

TEST_F(EndpointRestoreTest, DrainedItStopsToListenAndTriesNoMore) {
  const std::uint16_t port = three_free_ports();
  const auto one = endpoint("digits", "a", port);
  const auto taken = endpoint("digits", "b", port + 1);
  std::optional<PortHolder> process(port + 1);
  listeners_->restore({one, taken});
  ASSERT_TRUE(use(one));
  // The end comes when the timer of the next try is over already.
  asio::steady_timer before(daemon_.loop, std::chrono::milliseconds(0));
  before.async_wait([&](const ErrorCode&) { listeners_->drain(); });
  const auto over = std::chrono::steady_clock::now() + 2 * kRetry;
  ASSERT_TRUE(test::comes_true([&] { return std::chrono::steady_clock::now() > over; }));
  process.reset();
  turn_past_the_retry();
  EXPECT_FALSE(connect(port));
  EXPECT_FALSE(connect(port + 1));
  EXPECT_EQ(listeners_->connections(one), 1u) << "connections go on";
  leave(0);
  EXPECT_TRUE(daemon_.turn_until([&] { return !listeners_->in_use(one); }));
}

TEST_F(EndpointRestoreTest, ItsEndWhileATryIsDueLeavesNothingBehind) {
  const PortHolder process(0);
  listeners_->restore({endpoint("digits", "a", process.port())});
  listeners_.reset();
  turn_past_the_retry();
  EXPECT_TRUE(asked_.empty());
}

// ---- what the directory learns -----------------------------------------------------------------

class EndpointUseTest : public EndpointWorld {
 protected:
  void SetUp() override {
    EndpointWorld::SetUp();
    directory().serve_endpoints(*listeners_);
  }

  /// Leases an endpoint of the job digits.
  core::Endpoint lease(const std::string& name, Duration ttl) {
    std::optional<Result<EndpointLease>> leased;
    directory().lease_endpoint("digits", {name, "", ttl, 0}, daemon_.loop,
                               [&](Result<EndpointLease> done) { leased = std::move(done); });
    EXPECT_TRUE(daemon_.turn_until([&] { return leased.has_value(); }));
    if (!leased || !*leased) return endpoint("digits", name);
    EXPECT_EQ((*leased)->host, own_host());
    return endpoint("digits", name, (*leased)->port);
  }
  /// Returns how many hours the next endpoint to end has; -1: all have connections.
  int hours_left() {
    const auto next = (*directory().endpoints())->next_deadline();
    if (!next) return -1;
    return static_cast<int>(
        std::chrono::round<std::chrono::hours>(*next - directory().job_time()).count());
  }
};

TEST_F(EndpointUseTest, TheFirstConnectionOfEachStopsItsTimeAndTheLastOneStartsIt) {
  const auto first = lease("a", std::chrono::hours(10));
  const auto second = lease("b", std::chrono::hours(20));
  EXPECT_EQ(hours_left(), 10);
  ASSERT_TRUE(use(first));
  EXPECT_EQ(hours_left(), 20);
  ASSERT_TRUE(use(first));
  ASSERT_TRUE(use(second));
  EXPECT_EQ(hours_left(), -1);
  leave(0);
  ASSERT_TRUE(daemon_.turn_until([&] { return listeners_->connections(first) == 1; }));
  EXPECT_EQ(hours_left(), -1) << "one is left";
  leave(1);
  EXPECT_TRUE(daemon_.turn_until([&] { return hours_left() == 10; }));
  leave(2);
  EXPECT_TRUE(daemon_.turn_until([&] { return !listeners_->in_use(second); }));
  ASSERT_TRUE(use(first));
  EXPECT_EQ(hours_left(), 20);
}

TEST_F(EndpointUseTest, ConnectionsOfAReleasedEndpointSayNothingOfTheNextOfItsName) {
  const auto before = lease("a", std::chrono::hours(10));
  ASSERT_TRUE(use(before));
  std::optional<Result<void>> released;
  directory().release_endpoint({"digits", "a"}, [&](Result<void> done) { released = done; });
  ASSERT_TRUE(daemon_.turn_until([&] { return released.has_value(); }));
  EXPECT_TRUE(*released);
  const auto after = lease("a", std::chrono::hours(10));
  EXPECT_EQ(hours_left(), 10);
  ASSERT_TRUE(use(after));
  EXPECT_EQ(hours_left(), -1);
  leave(0);
  const double closed = daemon_.closed("tcpstore", "peer");
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.closed("tcpstore", "peer") > closed; }));
  daemon_.turn_a_while();
  EXPECT_EQ(hours_left(), -1) << "the other one's connection has ended, not this one's";
}

TEST_F(EndpointUseTest, ConnectionsThatOutliveTheListenersTellNobody) {
  const auto first = lease("a", std::chrono::hours(10));
  ASSERT_TRUE(use(first));
  listeners_.reset();
  leave(0);
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.closed("tcpstore", "peer") == 1; }));
  daemon_.turn_a_while();
  EXPECT_EQ(hours_left(), -1);
}

}  // namespace
}  // namespace c10dd::daemon
