// SPDX-License-Identifier: Apache-2.0
// Which replies may leave, and when: after their revision is durable. On a shared engine also after
// a confirmation of ownership that began when the reply already waited.
#include "daemon/core/host/commit_gate.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

constexpr Stamp kStart{5, 2, 10};

OutgoingReply reply(std::uint64_t sequence, Revision observed,
                    Evidence evidence = Evidence::state) {
  OutgoingReply r;
  r.sequence = sequence;
  r.observed = observed;
  r.evidence = evidence;
  return r;
}

std::vector<std::uint64_t> released(CommitGate& gate) {
  std::vector<OutgoingReply> replies;
  gate.take_released(replies);
  std::vector<std::uint64_t> sequences;
  for (const OutgoingReply& r : replies) sequences.push_back(r.sequence);
  return sequences;
}

using Sequences = std::vector<std::uint64_t>;

TEST(CommitGate, ReleasesReadOfDurableValueAtOnce) {
  CommitGate gate(kStart, false);
  gate.hold(reply(1, 10));
  gate.hold(reply(2, 0));
  EXPECT_EQ(released(gate), (Sequences{1, 2}));
  EXPECT_EQ(released(gate), Sequences{});
  EXPECT_FALSE(gate.wants_confirmation());
}

TEST(CommitGate, HoldsReadOfUnsyncedValue) {
  CommitGate gate(kStart, false);
  gate.hold(reply(1, 12));
  gate.hold(reply(2, 11, Evidence::own_commit));
  gate.hold(reply(3, 10));
  EXPECT_EQ(released(gate), Sequences{3});
  EXPECT_EQ(gate.held(), 2u);
  gate.committed(11);
  EXPECT_EQ(released(gate), Sequences{2});
  gate.committed(12);
  EXPECT_EQ(released(gate), Sequences{1});
  EXPECT_EQ(gate.held(), 0u);
}

TEST(CommitGate, KeepsTheOrderOfAnswersToOneRevision) {
  CommitGate gate(kStart, false);
  for (std::uint64_t n = 1; n <= 5; ++n) gate.hold(reply(n, 11));
  gate.committed(20);
  EXPECT_EQ(released(gate), (Sequences{1, 2, 3, 4, 5}));
}

TEST(CommitGate, StampsWithTheNewestDurableRevisionAndNeverGoesBack) {
  CommitGate gate(kStart, false);
  EXPECT_EQ(gate.stamp(), kStart);
  gate.committed(15);
  gate.committed(12);
  EXPECT_EQ(gate.stamp(), (Stamp{5, 2, 15}));
}

TEST(CommitGate, HoldsReadsOfASharedEngineUntilOwnershipIsConfirmed) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 10));
  EXPECT_TRUE(gate.wants_confirmation());
  EXPECT_EQ(released(gate), Sequences{});
  gate.confirmation_begun(1);
  EXPECT_FALSE(gate.wants_confirmation());
  EXPECT_EQ(gate.held(), 1u);
  gate.confirmed(1);
  EXPECT_EQ(released(gate), Sequences{1});
  EXPECT_EQ(gate.held(), 0u);
}

TEST(CommitGate, DoesNotTrustAConfirmationThatBeganBeforeTheRead) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 10));
  gate.confirmation_begun(1);
  gate.hold(reply(2, 10));
  gate.confirmed(1);
  EXPECT_EQ(released(gate), Sequences{1});
  EXPECT_TRUE(gate.wants_confirmation());
  gate.confirmation_begun(2);
  gate.confirmed(2);
  EXPECT_EQ(released(gate), Sequences{2});
}

TEST(CommitGate, TakesALaterConfirmationForAnEarlierOne) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 10));
  gate.confirmation_begun(1);
  gate.hold(reply(2, 10));
  gate.confirmation_begun(2);
  gate.confirmed(2);
  EXPECT_EQ(released(gate), (Sequences{1, 2}));
}

TEST(CommitGate, DemandsBothConfirmationAndDurabilityOfAReadOfUnsyncedValue) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 11));
  gate.confirmation_begun(1);
  gate.confirmed(1);
  EXPECT_EQ(released(gate), Sequences{});
  gate.committed(11);
  EXPECT_EQ(released(gate), Sequences{1});
  gate.hold(reply(2, 12));
  gate.confirmation_begun(2);
  gate.committed(12);
  EXPECT_EQ(released(gate), Sequences{});
  gate.confirmed(2);
  EXPECT_EQ(released(gate), Sequences{2});
}

TEST(CommitGate, TakesAWritesOwnCommitForItsConfirmation) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 11, Evidence::own_commit));
  EXPECT_FALSE(gate.wants_confirmation());
  gate.committed(11);
  EXPECT_EQ(released(gate), Sequences{1});
}

TEST(CommitGate, ConfirmsAWriteThatIsAnsweredFromItsStoredReply) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 9, Evidence::own_commit));
  EXPECT_TRUE(gate.wants_confirmation());
}

TEST(CommitGate, LetsEventsPassUnconfirmed) {
  CommitGate gate(kStart, true);
  gate.hold(reply(1, 0, Evidence::none));
  EXPECT_EQ(released(gate), Sequences{1});
}

}  // namespace
}  // namespace c10dd::core
