// SPDX-License-Identifier: Apache-2.0
// Which peers count as answering, and what the kernel says of real ones. That a host which has
// vanished does not answer is tested by tcpstore_networks_test.
#include "daemon/net/peer_signs.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

TEST(PeerSigns, AnswersAsLongAsItIsHeard) {
  EXPECT_TRUE(answers({}));
  EXPECT_TRUE(answers({.silent = milliseconds(4'900)}));
  EXPECT_TRUE(answers({.silent = milliseconds(5'100), .probes = 1}));
  EXPECT_TRUE(answers({.silent = milliseconds(10'500), .probes = 2}))
      << "a reply may be on its way";
  EXPECT_TRUE(answers({.silent = milliseconds(3'000), .unacked = 9, .retransmits = 4}));
}

TEST(PeerSigns, DoesNotAnswerTwoProbes) {
  EXPECT_TRUE(answers({.silent = kSilence - milliseconds(1), .probes = 2}));
  EXPECT_FALSE(answers({.silent = kSilence, .probes = 2}));
  EXPECT_FALSE(answers({.silent = minutes(9), .probes = 108}));
}

TEST(PeerSigns, DoesNotAcknowledgeData) {
  EXPECT_FALSE(answers({.silent = kSilence, .unacked = 1, .retransmits = 6}));
  EXPECT_FALSE(answers({.silent = kSilence, .probes = 1, .unacked = 1, .retransmits = 1}))
      << "a probe, then a reply";
}

TEST(PeerSigns, AnswersIfItWasNotAskedTwice) {
  EXPECT_TRUE(answers({.silent = minutes(2)}))
      << "its window is closed, and it has answered the last probe";
  EXPECT_TRUE(answers({.silent = minutes(2), .probes = 1})) << "the next probe was just sent";
  EXPECT_TRUE(answers({.silent = kSilence, .unacked = 1})) << "data was just sent";
  EXPECT_TRUE(answers({.silent = kSilence, .retransmits = 6})) << "all is acknowledged by now";
}

TEST(PeerSigns, TellHowLongThePeerAnswersAtLeast) {
  EXPECT_EQ(answers_for({}), kSilence);
  EXPECT_EQ(answers_for({.silent = milliseconds(4'000)}), kSilence - milliseconds(4'000));
  EXPECT_EQ(answers_for({.silent = minutes(2), .probes = 1}), milliseconds(0));
}

TEST(PeerSigns, OfASocketWithoutTcpSayThatItAnswers) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_TRUE(answers(signs_of(ends[0])));
  EXPECT_EQ(signs_of(-1).silent, milliseconds(0));
  for (const int end : ends) ::close(end);
}

TEST(PeerSigns, ComeFromTheKernel) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, generic, size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, generic, &size), 0);
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(client, generic, size), 0);
  const int server = ::accept(listener, nullptr, nullptr);
  ASSERT_EQ(::send(server, "x", 1, 0), 1);
  char byte = 0;
  ASSERT_EQ(::recv(client, &byte, 1, 0), 1);
  const PeerSigns signs = signs_of(server);
  EXPECT_LT(signs.silent, kSilence);
  EXPECT_EQ(signs.probes, 0u);
  EXPECT_EQ(signs.retransmits, 0u);
  for (const int socket : {listener, client, server}) ::close(socket);
}

}  // namespace
}  // namespace c10dd::daemon
