// SPDX-License-Identifier: Apache-2.0
// Blocking streams and single questions, to servers that are silent, late, do not read, close, or
// say too much.
#include "client/internal/stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>

#include <future>
#include <string>

#include "tests/unit/client/listening_socket.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::ListeningSocket;

constexpr auto kStreamLimit = 60s;

Stream::Time in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

class ClientStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<Stream> made = Stream::connect(server_.address(), in(kStreamLimit));
    ASSERT_TRUE(made) << made.error().detail;
    stream_.emplace(std::move(*made));
    peer_ = server_.accept();
  }
  void say(std::string_view text) const {
    EXPECT_EQ(::send(peer_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// Closes the connection so that what was not read is lost.
  void reset() {
    const linger now{1, 0};
    ::setsockopt(peer_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer_ = Descriptor();
  }

  ListeningSocket server_;
  std::optional<Stream> stream_;
  Descriptor peer_;
};

TEST_F(ClientStreamTest, AppendsWhatComesAndNothingAfterTheDeadline) {
  Bytes bytes = "before ";
  say("one");
  ASSERT_TRUE(*stream_->receive(bytes, in(kStreamLimit)));
  EXPECT_EQ(bytes, "before one");
  const auto silent = stream_->receive(bytes, in(1ms));
  ASSERT_TRUE(silent);
  EXPECT_FALSE(*silent);
  say("two");
  EXPECT_TRUE(test::comes_true([&] { return !stream_->is_quiet(); }));
  const auto late = stream_->receive(bytes, in(-1ms));
  ASSERT_TRUE(late);
  EXPECT_FALSE(*late) << "a server that never stops ends no loop late";
  EXPECT_EQ(bytes, "before one");
  ASSERT_TRUE(*stream_->receive(bytes, in(kStreamLimit)));
  EXPECT_EQ(bytes, "before onetwo");
}

TEST_F(ClientStreamTest, WaitsForWhatComesLater) {
  Bytes bytes;
  auto received = std::async(std::launch::async,
                             [&] { return stream_->receive(bytes, in(kStreamLimit)).value(); });
  EXPECT_EQ(received.wait_for(20ms), std::future_status::timeout);
  say("late");
  ASSERT_EQ(received.wait_for(kStreamLimit / 2), std::future_status::ready);
  EXPECT_TRUE(received.get());
  EXPECT_EQ(bytes, "late");
}

TEST_F(ClientStreamTest, TellsAClosedConnectionFromOneThatIsLost) {
  Bytes bytes = "before";
  say("last");
  peer_ = Descriptor();
  ASSERT_TRUE(*stream_->receive(bytes, in(kStreamLimit)));
  const auto closed = stream_->receive(bytes, in(kStreamLimit));
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::unavailable);
  EXPECT_EQ(closed.error().detail, "the server has closed the connection");
  SetUp();
  reset();
  const auto lost = stream_->receive(bytes, in(kStreamLimit));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::unavailable);
  EXPECT_EQ(lost.error().detail, "connection reset by peer");
  EXPECT_EQ(bytes, "beforelast");
}

TEST_F(ClientStreamTest, SendsAllToAServerThatReadsLate) {
  const Bytes large(std::size_t{32} << 20, 'v');
  auto sent = std::async(std::launch::async,
                         [&] { return stream_->send(large, in(kStreamLimit)).has_value(); });
  EXPECT_EQ(sent.wait_for(20ms), std::future_status::timeout) << "the socket is full";
  std::size_t total = 0;
  std::vector<char> buffer(1 << 20);
  while (total < large.size()) {
    const ssize_t n = ::recv(peer_.get(), buffer.data(), buffer.size(), 0);
    ASSERT_GT(n, 0);
    total += static_cast<std::size_t>(n);
  }
  EXPECT_TRUE(sent.get());
  EXPECT_EQ(total, large.size());
}

TEST_F(ClientStreamTest, GivesUpOnAServerThatDoesNotReadOrHasGone) {
  const Bytes large(std::size_t{32} << 20, 'v');
  const auto full = stream_->send(large, in(20ms));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::unavailable);
  EXPECT_EQ(full.error().detail, "the server does not read the request");
  SetUp();
  reset();
  const auto gone = stream_->send(large, in(kStreamLimit));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Code::unavailable);
  EXPECT_TRUE(gone.error().detail == "connection reset by peer" ||
              gone.error().detail == "broken pipe")
      << gone.error().detail;
}

TEST_F(ClientStreamTest, IsQuietWhileItIsOpenAndNothingHasCome) {
  EXPECT_TRUE(stream_->is_quiet());
  say("x");
  EXPECT_TRUE(test::comes_true([&] { return !stream_->is_quiet(); }));
  Bytes bytes;
  ASSERT_TRUE(*stream_->receive(bytes, in(kStreamLimit)));
  EXPECT_EQ(bytes, "x") << "looking takes nothing";
  EXPECT_TRUE(stream_->is_quiet());
  peer_ = Descriptor();
  EXPECT_TRUE(test::comes_true([&] { return !stream_->is_quiet(); }));
}

TEST_F(ClientStreamTest, TwoStreamsToOneServerAreApart) {
  Result<Stream> second = Stream::connect(server_.address(), in(kStreamLimit));
  ASSERT_TRUE(second);
  const Descriptor second_peer = server_.accept();
  say("for the first");
  peer_ = Descriptor();
  Bytes bytes;
  ASSERT_TRUE(*stream_->receive(bytes, in(kStreamLimit)));
  EXPECT_EQ(bytes, "for the first");
  EXPECT_FALSE(stream_->receive(bytes, in(kStreamLimit)));
  EXPECT_TRUE(second->is_quiet());
}

TEST(ClientStreamConnectTest, FailsAsTheDialAndKeepsNothing) {
  std::string closed;
  {
    const ListeningSocket server;
    closed = server.address();
  }
  const std::ptrdiff_t before = test::open_descriptors();
  EXPECT_EQ(Stream::connect(closed, in(kStreamLimit)).error().code, Code::not_found);
  EXPECT_EQ(Stream::connect("127.0.0.1", in(kStreamLimit)).error().code, Code::invalid_argument);
  const ListeningSocket silent("127.0.0.1", 0, 0);
  const auto filler = Stream::connect(silent.address(), in(kStreamLimit));
  ASSERT_TRUE(filler);
  EXPECT_EQ(Stream::connect(silent.address(), in(20ms)).error().code, Code::unavailable);
  EXPECT_EQ(Stream::connect(silent.address(), in(-20ms)).error().code, Code::unavailable);
  EXPECT_LE(test::open_descriptors(), before + 2);
}

// ---- single questions --------------------------------------------------------------------------

TEST(FirstWordsTest, AreWhatTheServerSaysToTheProbe) {
  const ListeningSocket server;
  auto asked = std::async(std::launch::async,
                          [&] { return first_words(server.address(), "who?", -1, kStreamLimit); });
  {
    const Descriptor peer = server.accept();
    char probe[16];
    EXPECT_EQ(std::string(probe, static_cast<std::size_t>(::recv(peer.get(), probe, 16, 0))),
              "who?");
    const std::string reply = "HTTP/1.1 400 Bad Request\r\n" + std::string(600, 'x');
    EXPECT_EQ(::send(peer.get(), reply.data(), reply.size(), 0), 626);
    EXPECT_EQ(asked.get(), reply.substr(0, 512));
  }
}

TEST(FirstWordsTest, AreNoneOfAServerThatIsSilentClosesOrDoesNotListen) {
  std::string address;
  {
    const ListeningSocket server;
    address = server.address();
    EXPECT_EQ(first_words(address, "who?", -1, 20ms), "");
    const Descriptor interrupt(eventfd(1, EFD_CLOEXEC));
    EXPECT_EQ(first_words(address, "who?", interrupt.get(), kStreamLimit), "");
    auto asked = std::async(std::launch::async,
                            [&] { return first_words(address, "who?", -1, kStreamLimit); });
    for (int i = 0; i < 3; ++i) server.accept();
    EXPECT_EQ(asked.get(), "");
  }
  EXPECT_EQ(first_words(address, "who?", -1, kStreamLimit), "");
}

// ---- texts and addresses -----------------------------------------------------------------------

TEST(DialFailuresTest, NobodyListensOnlyIfNoAddressFailedOtherwise) {
  struct Case {
    std::vector<int> errors;
    Code code;
    const char* detail;
  };
  for (const Case& one : std::initializer_list<Case>{
           {{ECONNREFUSED}, Code::not_found, "connect: connection refused"},
           {{ECONNREFUSED, ENETUNREACH}, Code::not_found, "connect: network is unreachable"},
           {{EAFNOSUPPORT, ECONNREFUSED}, Code::not_found, "connect: connection refused"},
           {{EADDRNOTAVAIL, ECONNREFUSED}, Code::not_found, "connect: connection refused"},
           {{ENETUNREACH}, Code::unavailable, "connect: network is unreachable"},
           {{ETIMEDOUT, ECONNREFUSED}, Code::unavailable, "connect: connection refused"},
           {{ECONNREFUSED, EINTR}, Code::unavailable, "connect: interrupted system call"}}) {
    DialFailures failures;
    for (const int error : one.errors) failures.add(error);
    EXPECT_EQ(failures.failure().code, one.code) << one.detail;
    EXPECT_EQ(failures.failure().detail, one.detail);
  }
}

TEST(SocketPeerTest, IsNotElsewhereOnLoopbackOrBeforeItIsConnected) {
  const ListeningSocket server("127.0.0.3");
  const auto socket = dial(server.address(), -1, kStreamLimit);
  ASSERT_TRUE(socket);
  EXPECT_FALSE(peer_is_elsewhere(socket->get()));
  const Descriptor none(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(peer_is_elsewhere(none.get()));
}

}  // namespace
}  // namespace c10dd::client
