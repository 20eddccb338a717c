// SPDX-License-Identifier: Apache-2.0
// Tickets, and connections that are kept only to be refused. The limits themselves are tested in
// growth_gate_test.cc.
#include "daemon/net/admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

TEST(Ticket, KeepsWhatItIsGivenUntilItGoes) {
  auto kept = std::make_shared<int>(1);
  const std::weak_ptr<int> there = kept;
  Ticket ticket;
  ticket.keep(std::move(kept));
  {
    Ticket moved(std::move(ticket));
    EXPECT_FALSE(there.expired());
  }
  EXPECT_TRUE(there.expired());
}

TEST(Ticket, CountsUntilItGoes) {
  const auto a = std::make_shared<Ticket::Count>(0);
  const auto b = std::make_shared<Ticket::Count>(0);
  {
    Ticket both(a, b);
    Ticket one(a);
    EXPECT_EQ(*a, 2u);
    EXPECT_EQ(*b, 1u);
    Ticket moved(std::move(both));
    EXPECT_EQ(*a, 2u) << "the same place";
    Ticket none;
    none = std::move(moved);
    EXPECT_EQ(*b, 1u);
  }
  EXPECT_EQ(*a, 0u);
  EXPECT_EQ(*b, 0u);
}

TEST(Admission, SomeMayStandAsideToBeTold) {
  Options options;
  options.max_connections = 1;
  Admission admission(options);
  const auto from = boost::asio::ip::make_address("10.0.0.1");
  const Ticket in = admission.enter(from);
  EXPECT_EQ(admission.enter_own().error().detail,
            "too many connections and endpoints: 2 with this one, limit 1; raise "
            "--max-connections or the limit of open files");
  std::vector<Ticket> aside;
  while (std::optional<Ticket> ticket = admission.enter_for_probes()) {
    aside.push_back(std::move(*ticket));
    ASSERT_LE(aside.size(), limits::kSpareFiles);
  }
  EXPECT_EQ(aside.size(), limits::kSpareFiles / 2);
  const Result<void> refused = admission.may_enter(from);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().detail,
      "too many connections: 2 with this one, limit 1; raise --max-connections or the limit of "
      "open files")
      << "those aside are not counted";
  aside.pop_back();
  EXPECT_TRUE(admission.enter_for_probes());
}

TEST(Admission, ClientsOfTcpStoreLeaveRoomForOthers) {
  Options options;
  options.max_connections = 40;
  Admission admission(options);
  const auto from = boost::asio::ip::make_address("10.0.0.1");
  std::vector<Ticket> inside;
  for (int i = 0; i < 34; ++i) {
    ASSERT_TRUE(admission.may_enter_tcpstore());
    inside.push_back(admission.enter(from));
    inside.back().also_count(admission.of_tcpstore());
  }
  {
    const Result<Ticket> link = admission.enter_link();
    ASSERT_TRUE(link) << link.error().detail;
    EXPECT_EQ(admission.enter_link().error().detail,
              "too many TCPStore connections: 36 with this one, limit 35, because 5 of 40 are "
              "reserved for native and HTTP clients; raise --max-connections or the limit of open "
              "files");
    EXPECT_EQ(admission.may_enter_tcpstore().error().code, Code::quota_exceeded);
  }
  EXPECT_TRUE(admission.may_enter_tcpstore()) << "the link has ended";
  std::vector<Ticket> others;
  while (admission.may_enter(from)) others.push_back(admission.enter(from));
  EXPECT_EQ(others.size(), 6U);
  EXPECT_EQ(admission.enter_link().error().code, Code::quota_exceeded) << "no place at all";
  others.clear();
  inside.clear();
  for (int i = 0; i < 35; ++i) {
    Result<Ticket> link = admission.enter_link();
    ASSERT_TRUE(link) << i << ": all places are free again";
    inside.push_back(std::move(*link));
  }
  inside.front().also_count(admission.of_tcpstore());
  EXPECT_FALSE(admission.may_enter_tcpstore()) << "counted once";
}

TEST(Admission, ForgetsAddressesThatAreGoneAndNoOthers) {
  Options options;
  options.max_connections_per_address = 1;
  Admission admission(options);
  const auto stays = boost::asio::ip::make_address("10.1.0.1");
  const Ticket in = admission.enter(stays);
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    const boost::asio::ip::address_v4 passing(0x0B00'0000 + i);
    ASSERT_TRUE(admission.may_enter(passing));
    admission.enter(passing);
  }
  EXPECT_FALSE(admission.may_enter(stays));
}

}  // namespace
}  // namespace c10dd::daemon
