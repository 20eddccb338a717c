// SPDX-License-Identifier: Apache-2.0
// Which requests are refused when room is short, and how many connections are admitted.
#include "daemon/core/host/growth_gate.h"

#include <gtest/gtest.h>

#include <map>

#include "daemon/net/admission.h"

namespace c10dd::daemon {
namespace {

using core::DiskRoom;
using core::GrowthGate;

constexpr std::uint64_t kMany = std::uint64_t{1} << 40;

/// Returns whether a request of each operation is refused, by the operation's name.
std::map<std::string, Code> refused_by(const GrowthGate& gate) {
  std::map<std::string, Code> refused;
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    const auto failed = gate.refuses(Request(Op{}));
    if (failed) refused[std::string(Op::op.name)] = failed->code;
  });
  return refused;
}

TEST(GrowthGate, RefusesNothingWhileThereIsRoom) {
  GrowthGate gate(kMany);
  EXPECT_TRUE(refused_by(gate).empty()) << "also where no disk is watched";
  gate.watch("disk of /srv", 1000, 100);
  gate.set_free(1000);
  EXPECT_TRUE(refused_by(gate).empty());
  EXPECT_EQ(gate.disk_note(), "");
}

TEST(GrowthGate, RefusesGrowthBelowTheReserve) {
  GrowthGate gate(kMany);
  gate.watch("disk of /srv", 1000, 100);
  gate.set_free(999);
  EXPECT_EQ(gate.room(), DiskRoom::little);
  std::map<std::string, Code> expected;
  for (const char* op : {"set", "multi_set", "add", "append", "compare_set", "queue_push"}) {
    expected[op] = Code::disk_full;
  }
  EXPECT_EQ(refused_by(gate), expected);
  EXPECT_EQ(
      gate.refuses(Set{})->detail,
      "the disk of /srv has 999 bytes free, but writes that add data need 1000; remove keys, or "
      "free space on that disk");
  Transact transact;
  transact.actions = {{Action::Kind::remove, "k", "", 0, Duration{0}, false}};
  EXPECT_FALSE(gate.refuses(transact));
  transact.actions.push_back({Action::Kind::set, "k", "v", 0, Duration{0}, false});
  EXPECT_TRUE(gate.refuses(transact));
  Exchange exchange;
  exchange.parts = {Bytes(64 * 1024, 'x')};
  EXPECT_FALSE(gate.refuses(exchange));
  exchange.parts.push_back("x");
  EXPECT_TRUE(gate.refuses(exchange));
}

TEST(GrowthGate, BelowTheMinimumKeepsWhatMakesRoom) {
  GrowthGate gate(kMany);
  gate.watch("disk of /srv", 1000, 100);
  gate.set_free(99);
  const std::map<std::string, Code> refused = refused_by(gate);
  EXPECT_TRUE(refused.contains("exchange"));
  EXPECT_TRUE(refused.contains("set"));
  for (const char* op : {"hello", "ping", "goodbye", "get", "wait", "list", "remove",
                         "remove_prefix", "queue_pop", "barrier", "cancel", "watch", "report",
                         "join", "leave", "watch_group", "members", "acknowledge", "progress"}) {
    EXPECT_FALSE(refused.contains(op)) << op;
  }
}

TEST(GrowthGate, CountsWhatIsOnItsWayToTheDisk) {
  GrowthGate gate(kMany);
  gate.watch("disk of /srv", 1000, 100);
  gate.set_free(1500);
  gate.add_written(501);
  EXPECT_EQ(gate.room(), DiskRoom::little);
  gate.add_written(kMany);
  EXPECT_EQ(gate.room(), DiskRoom::none);
  gate.set_free(1500);
  EXPECT_EQ(gate.room(), DiskRoom::enough) << "somebody has looked again";
}

TEST(GrowthGate, LeavesWhatTheEngineNeedsToLetGoOfWhatIsRemoved) {
  GrowthGate gate(kMany);
  gate.watch("disk of /srv", 1000, 100);
  gate.set_free(3000, 3000);
  EXPECT_EQ(gate.room(), DiskRoom::enough);
  gate.add_written(1);
  EXPECT_EQ(gate.room(), DiskRoom::little) << "that will have to be tidied up, too";
  gate.set_free(2999, 3000);
  EXPECT_EQ(
      gate.refuses(Set{})->detail,
      "the disk of /srv has 2999 bytes free, but writes that add data need 3000; remove keys, "
      "or free space on that disk");
  EXPECT_FALSE(gate.refuses(Remove{}));
  gate.set_free(2999, 500);
  EXPECT_EQ(gate.room(), DiskRoom::enough);
}

TEST(GrowthGate, BoundsTheBytesOfAllJobs) {
  GrowthGate gate(1000);
  gate.memory().add_stored(999);
  EXPECT_TRUE(refused_by(gate).empty());
  gate.memory().add_stored(1);
  const auto refused = gate.refuses(Set{});
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::quota_exceeded);
  EXPECT_EQ(refused->detail,
            "all jobs together hold 1000 bytes, limit 1000; remove keys, or raise --max-bytes");
  EXPECT_FALSE(gate.refuses(Remove{}));
  EXPECT_FALSE(gate.refuses(Exchange{}));
  gate.memory().add_stored(-500);
  EXPECT_FALSE(gate.refuses(Set{}));
}

TEST(Admission, BoundsOneAddressAndAll) {
  Options options;
  options.max_connections = 3;
  options.max_connections_per_address = 2;
  Admission admission(options);
  const auto a = boost::asio::ip::make_address("10.0.0.1");
  const auto b = boost::asio::ip::make_address("10.0.0.2");
  Ticket first = admission.enter(a);
  Ticket second = admission.enter(a);
  const Result<void> refused = admission.may_enter(a);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().detail,
            "too many connections from 10.0.0.1: 3 with this one, limit 2; share connections, or "
            "raise --max-connections-per-address");
  EXPECT_TRUE(admission.may_enter(b));
  Ticket third = admission.enter(b);
  EXPECT_EQ(admission.may_enter(b).error().code, Code::quota_exceeded) << "three are all";
  { const Ticket gone = std::move(second); }
  EXPECT_TRUE(admission.may_enter(a));
}

TEST(Admission, ThisMachineHasNoLimitOfItsOwnUnlessItIsGiven) {
  Admission admission((Options()));
  const auto here = boost::asio::ip::make_address("127.0.0.1");
  const auto there = boost::asio::ip::make_address("10.0.0.1");
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < limits::kConnectionsPerAddress; ++i) {
    if (!admission.may_enter(here)) GTEST_SKIP() << "the limit of open files is too low here";
    tickets.push_back(admission.enter(there));
  }
  EXPECT_FALSE(admission.may_enter(there));
}

}  // namespace
}  // namespace c10dd::daemon
