// SPDX-License-Identifier: Apache-2.0
// Endpoints in the directory of a daemon: a reply leaves when its row is durable, and the listeners
// are those of the rows, also after the engine was lost.
#include <optional>
#include <set>

#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::seconds;

/// Listeners that only record what they are asked.
struct FakePorts final : EndpointPorts {
  Result<std::uint16_t> open(const Endpoint& endpoint, const Endpoints& leased) override {
    if (failure) return *failure;
    std::uint16_t port = 1000;
    while (leased.has_port(port)) ++port;
    lines.push_back("open " + endpoint.name);
    listening.insert(port);
    return port;
  }
  void close(const Endpoint& endpoint, std::string_view how) override {
    lines.push_back(std::string(how) + " " + endpoint.name);
    listening.erase(endpoint.port);
  }
  void restore(const std::vector<Endpoint>& leased) override {
    listening.clear();
    for (const Endpoint& endpoint : leased) listening.insert(endpoint.port);
    lines.push_back("restore " + std::to_string(leased.size()));
  }
  bool in_use(const Endpoint& endpoint) const override { return used.contains(endpoint.name); }
  const std::string& host() const override { return address; }

  Lines take() { return std::exchange(lines, {}); }

  Lines lines;
  std::set<std::uint16_t> listening;
  std::set<std::string> used;
  std::optional<Failure> failure;
  std::string address = "127.0.0.1";
};

class DirectoryEndpoints : public testing::Test {
 protected:
  void SetUp() override {
    world_.directory->serve_endpoints(ports_);
    EXPECT_EQ(ports_.take(), Lines{"restore 0"});
  }

  using Leased = std::shared_ptr<std::optional<Result<EndpointLease>>>;

  /// The reply comes when it is ready.
  Leased lease(const std::string& name, const std::string& run = "", Duration ttl = seconds(10)) {
    auto reply = std::make_shared<std::optional<Result<EndpointLease>>>();
    world_.loops[1]->turn([&] {
      world_.directory->lease_endpoint("j", {name, run, ttl, 0}, *world_.loops[1],
                                       [reply](Result<EndpointLease> result) { *reply = result; });
    });
    world_.loops[0]->turn();
    return reply;
  }

  std::uint16_t port_of(const Leased& reply) {
    world_.settle();
    if (!*reply || !**reply) return 0;
    return (**reply)->port;
  }

  std::string refusal(const Leased& reply) {
    world_.settle();
    return !*reply || **reply ? "" : (*reply)->error().detail;
  }

  std::optional<Result<void>> release(const std::string& name) {
    std::optional<Result<void>> outcome;
    world_.directory->release_endpoint({"j", name}, [&](Result<void> done) { outcome = done; });
    world_.settle();
    return outcome;
  }

  HostWorld world_{2};
  FakePorts ports_;
};

TEST_F(DirectoryEndpoints, AreToldWhenTheirRowIsDurable) {
  const Leased first = lease("a", "r");
  EXPECT_EQ(ports_.take(), Lines{"open a"});
  const Leased again = lease("a", "r");
  EXPECT_EQ(ports_.take(), Lines{});
  EXPECT_FALSE(first->has_value());
  EXPECT_FALSE(again->has_value()) << "its row may be lost, too";
  EXPECT_EQ(port_of(first), 1000);
  EXPECT_EQ(port_of(again), 1000);
  EXPECT_EQ((**first)->host, "127.0.0.1");
  EXPECT_EQ((**first)->ttl, seconds(10));
  EXPECT_EQ(port_of(lease("b")), 1001);
}

TEST_F(DirectoryEndpoints, GoBackWhenTheRunCannotBeMade) {
  world_.limits.jobs = 1;
  world_.open();
  EXPECT_EQ(port_of(lease("a", "r")), 1000);
  ports_.take();
  EXPECT_EQ(refusal(lease("b", "s")),
            "too many jobs: 2 with this one, limit 1; "
            "c10ddctl jobs lists them, and c10ddctl rm NAME removes one that nobody uses");
  EXPECT_EQ(ports_.take(), (Lines{"open b", "withdrawn b"}));
  EXPECT_EQ(ports_.listening, std::set<std::uint16_t>{1000});
}

TEST_F(DirectoryEndpoints, SayWhyThereIsNoPort) {
  ports_.failure = failure(Code::quota_exceeded, "no port");
  EXPECT_EQ(refusal(lease("a")), "no port");
  ports_.failure.reset();
  EXPECT_EQ(port_of(lease("a")), 1000);
}

TEST_F(DirectoryEndpoints, ExpireInJobTime) {
  EXPECT_EQ(port_of(lease("a")), 1000);
  ports_.take();
  world_.pass(seconds(9));
  EXPECT_EQ(ports_.take(), Lines{});
  EXPECT_EQ(port_of(lease("a")), 1000);
  world_.pass(seconds(9));
  const auto endpoints = world_.directory->endpoints();
  world_.directory->endpoint_in_use(*(*endpoints)->find({"j", "a"}), true);
  world_.pass(seconds(60));
  EXPECT_EQ(ports_.take(), Lines{});
  world_.directory->endpoint_in_use(*(*endpoints)->find({"j", "a"}), false);
  world_.pass(seconds(9));
  EXPECT_EQ(ports_.take(), Lines{});
  EXPECT_TRUE(world_.directory->next_wake());
  world_.pass(seconds(2));
  EXPECT_EQ(ports_.take(), Lines{"expired a"});
  world_.settle();
  world_.open();
  EXPECT_EQ(ports_.take(), Lines{"restore 0"}) << "its row has gone";
}

TEST_F(DirectoryEndpoints, NeitherExpireNorAreLeasedInADrain) {
  EXPECT_EQ(port_of(lease("a")), 1000);
  ports_.take();
  world_.directory->drain();
  world_.pass(seconds(60));
  EXPECT_EQ(ports_.take(), Lines{});
  EXPECT_FALSE(world_.directory->next_wake());
  EXPECT_EQ(refusal(lease("b")), "the daemon is shutting down");
}

TEST_F(DirectoryEndpoints, AreReleased) {
  EXPECT_EQ(port_of(lease("a")), 1000);
  ports_.take();
  EXPECT_TRUE(*release("a"));
  EXPECT_EQ(ports_.take(), Lines{"released a"});
  EXPECT_EQ(release("a")->error().detail, "unknown endpoint \"a\" of job \"j\"");
  EXPECT_EQ(port_of(lease("b")), 1000) << "the port is free";
}

TEST_F(DirectoryEndpoints, AreThoseOfTheRowsWhenTheEngineIsBack) {
  EXPECT_EQ(port_of(lease("a", "r")), 1000);
  const Leased lost = lease("b");
  world_.fail_next_directory = true;
  EXPECT_EQ(refusal(lost),
            "the engine was lost; the endpoint may or may not have been leased; try again");
  world_.directory->lost();
  EXPECT_EQ(refusal(lease("a", "r")), "the engine is closed");
  EXPECT_EQ(release("a")->error().code, Code::unavailable);
  EXPECT_FALSE(world_.directory->endpoints());
  ports_.take();
  ports_.used.insert("a");
  world_.open();
  EXPECT_EQ(ports_.take(), Lines{"restore 1"});
  EXPECT_EQ(ports_.listening, std::set<std::uint16_t>{1000});
  world_.pass(seconds(60));
  EXPECT_EQ(ports_.take(), Lines{}) << "it has a connection";
}

TEST_F(DirectoryEndpoints, GoWithTheirJob) {
  EXPECT_EQ(port_of(lease("a", "r")), 1000);
  EXPECT_EQ(port_of(lease("b")), 1001);
  ports_.take();
  std::optional<Result<void>> outcome;
  world_.directory->remove("j", [&](Result<void> done) { outcome = done; });
  world_.settle();
  ASSERT_TRUE(outcome && *outcome);
  EXPECT_EQ(ports_.take(), (Lines{"released a", "released b"}));
  EXPECT_EQ(world_.struck, Lines{"j/r removed"});
  EXPECT_EQ(port_of(lease("b")), 1000);
  world_.directory->remove("j", [&](Result<void> done) { outcome = done; });
  world_.settle();
  EXPECT_TRUE(*outcome) << "a job that is nothing but an endpoint";
}

TEST_F(DirectoryEndpoints, AreLeasedForTheJobOfANativeSession) {
  std::optional<Reply> reply;
  world_.loops[1]->turn([&] {
    world_.host(1).lease_endpoint("k", {"a", "", Duration(0), 0}, 0,
                                  [&](const Reply& result) { reply = result; });
  });
  world_.settle();
  ASSERT_TRUE(reply && *reply);
  EXPECT_EQ(std::get<EndpointLease>(**reply).port, 1000);
  EXPECT_EQ(std::get<EndpointLease>(**reply).ttl, limits::kEndpointTtl);
}

TEST(FleetEndpoints, AreListenedForAlthoughTheDirectoryHasChangedMeanwhile) {
  const auto memory = std::make_shared<store::SharedMemory>();
  HostWorld first(memory, 1);
  HostWorld second(memory, 2);
  FakePorts ports[2];
  first.directory->serve_endpoints(ports[0]);
  second.directory->serve_endpoints(ports[1]);
  std::optional<Result<EndpointLease>> reply;
  first.loops[0]->turn([&] {
    first.directory->lease_endpoint("j", {"a", "", seconds(10), 0}, *first.loops[0],
                                    [&](Result<EndpointLease> leased) { reply = leased; });
  });
  second.join("b", 1);  // is faster
  first.settle();
  ASSERT_TRUE(reply && *reply);
  EXPECT_EQ(ports[0].listening, std::set<std::uint16_t>{(*reply)->port});
  second.beat();
  second.settle();
  EXPECT_EQ(ports[1].listening, std::set<std::uint16_t>{(*reply)->port});
}

}  // namespace
}  // namespace c10dd::core
