// SPDX-License-Identifier: Apache-2.0
// To which server a heartbeat goes, and when the link is opened anew.
#include "daemon/core/fleet/fleet_link.h"

#include <gtest/gtest.h>

#include "store/memory_engine.h"

namespace c10dd::core {
namespace {

/// A link to a server with this name, which fails on demand.
class NamedFleet final : public store::Fleet {
 public:
  NamedFleet(std::string server, const bool& fails) : server_(std::move(server)), fails_(fails) {}

  Result<store::FleetReading> read() override { return reading(0); }
  Result<store::FleetReading> beat(const store::DaemonFacts&) override { return reading(1); }
  Result<void> remove(std::uint64_t, std::uint64_t) override { return {}; }
  Result<std::vector<std::optional<store::Owner>>> owners(
      std::span<const JobNumber> jobs) override {
    return std::vector<std::optional<store::Owner>>(jobs.size());
  }
  Result<void> report_rollback(std::string_view) override { return {}; }
  Result<void> accept_rollback(const Bytes&) override { return {}; }
  std::string_view server() const override { return server_; }

 private:
  Result<store::FleetReading> reading(std::uint64_t heartbeat_count) const {
    if (fails_) return failure(Code::unavailable, "no reply");
    store::FleetReading reading;
    reading.heartbeat_count = heartbeat_count;
    return reading;
  }

  const std::string server_;
  const bool& fails_;
};

class FleetLinkTest : public testing::Test {
 protected:
  FleetLink::Heard beat() { return link.ask(true, {}, "engine"); }

  std::string in_charge = "engine";
  bool fails = false;
  int opened = 0;
  FleetLink link{[this]() -> Result<std::unique_ptr<store::Fleet>> {
    if (in_charge.empty()) return failure(Code::unavailable, "nobody listens");
    ++opened;
    return std::unique_ptr<store::Fleet>(std::make_unique<NamedFleet>(in_charge, fails));
  }};
};

TEST_F(FleetLinkTest, OpensItselfOnceAndAnewAfterAFailure) {
  EXPECT_EQ(link.fleet(), nullptr);
  EXPECT_TRUE(beat().reading);
  EXPECT_TRUE(link.ask(false, {}, "engine").reading);
  EXPECT_EQ(opened, 1);
  fails = true;
  EXPECT_FALSE(beat().reading);
  EXPECT_EQ(link.fleet(), nullptr);
  fails = false;
  EXPECT_TRUE(beat().reading);
  EXPECT_EQ(opened, 2);
  in_charge.clear();
  link.close();
  EXPECT_EQ(beat().reading.error().detail, "nobody listens");
}

TEST_F(FleetLinkTest, SendsAHeartbeatOnlyToTheServerOfTheEngine) {
  in_charge = "other";
  ASSERT_TRUE(link.open());
  const FleetLink::Heard old = beat();
  EXPECT_FALSE(old.reading);
  EXPECT_FALSE(old.engine_left_behind) << "the link may be older than the engine";
  EXPECT_EQ(link.fleet(), nullptr);
  EXPECT_TRUE(beat().engine_left_behind);
  in_charge = "engine";
  EXPECT_EQ(beat().reading->heartbeat_count, 1U);
}

TEST_F(FleetLinkTest, ReadsFromAnyServer) {
  in_charge = "other";
  EXPECT_TRUE(link.ask(false, {}, "engine").reading);
}

}  // namespace
}  // namespace c10dd::core
