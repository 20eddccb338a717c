// SPDX-License-Identifier: Apache-2.0
// Handshakes on threads of their own: who is slow, silent or speaks no TLS holds nobody else up.
#include "daemon/net/handshakes.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <functional>

#include "daemon/net/plain_stream.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/entries.h"
#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

/// A client with a socket of its own.
struct Peer {
  explicit Peer(Loop& loop, const tls::Context& context) : socket(loop), channel(context) {}

  /// Shakes hands as far as that goes without waiting. Returns whether it is done.
  bool shake_hands() {
    const auto done = channel.shake_hands();
    flush();
    ErrorCode failed;
    std::string bytes(10'000, '\0');
    bytes.resize(socket.read_some(asio::buffer(bytes), failed));
    channel.receive(bytes);
    return done && *done;
  }
  void flush() {
    while (!channel.outgoing().empty()) {
      const std::string_view bytes = channel.outgoing();
      channel.sent(asio::write(socket, asio::buffer(bytes)));
    }
  }

  tcp::socket socket;
  tls::Channel channel;
};

class HandshakesTest : public testing::Test {
 protected:
  /// Connects from an address, and hands the connection over with `head`, as if it had been read.
  std::unique_ptr<Peer> connect(const std::string& head, const char* from = "127.0.0.1") {
    auto peer = std::make_unique<Peer>(loop_, client_);
    peer->socket.open(tcp::v4());
    peer->socket.bind(tcp::endpoint(asio::ip::make_address(from), 0));
    peer->socket.connect(acceptor_.local_endpoint());
    auto plain = std::make_shared<PlainStream>(acceptor_.accept(), Ticket(places_));
    plain->put_head(head);
    handshakes_->begin(std::move(plain), server_, [this](Handshakes::Result result) {
      (result.stream ? open_.push_back(std::move(result.stream))
                     : failed_.push_back(result.failed.detail));
    });
    peer->socket.non_blocking(true);
    return peer;
  }
  void start(milliseconds deadline, HandshakeQueue::Limits limits = {}) {
    handshakes_.emplace(loop_, 2, deadline, limits);
  }
  bool until(const std::function<bool()>& done, Clock::duration patience = seconds(30)) {
    const auto end = Clock::now() + patience;
    while (!done()) {
      if (Clock::now() > end) return false;
      loop_.restart();
      loop_.run_one_for(milliseconds(1));
    }
    return true;
  }

  const tls::Ca ca_;
  const tls::Context server_ = tls::server_of(ca_.daemon());
  const tls::Context client_ = tls::client_of(tls::CaHash{ca_.key.hash()});
  Loop loop_;
  tcp::acceptor acceptor_{loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  const std::shared_ptr<Ticket::Count> places_ = std::make_shared<Ticket::Count>(0);
  std::vector<std::shared_ptr<Stream>> open_;
  std::vector<std::string> failed_;
  std::optional<Handshakes> handshakes_;
};

TEST_F(HandshakesTest, GivesAStreamOfTheLoopThatHasWhatTheClientSentAtOnce) {
  start(seconds(10));
  const auto peer = connect("");
  ASSERT_TRUE(until([&] { return peer->shake_hands(); }));
  ASSERT_TRUE(peer->channel.write("hello"));
  peer->flush();
  ASSERT_TRUE(until([&] { return !open_.empty(); }));
  std::string into(10, '\0');
  ErrorCode failed;
  std::size_t read = 0;
  ASSERT_TRUE(until([&] { return (read = open_[0]->read_now(asio::buffer(into), failed)) > 0; }));
  EXPECT_EQ(into.substr(0, read), "hello");
  EXPECT_EQ(*places_, 1U);
  EXPECT_EQ(handshakes_->under_way(), 0U);
  open_.clear();
  EXPECT_EQ(*places_, 0U);
}

TEST_F(HandshakesTest, SaysWhyAHandshakeFailed) {
  start(milliseconds(300));
  const auto plain = connect("GET / HTTP/1.1\r\n");
  ASSERT_TRUE(until([&] { return failed_.size() == 1; }));
  EXPECT_EQ(failed_.back(), "the client does not speak TLS");
  auto gone = connect("\x16\x03\x01");
  gone.reset();
  ASSERT_TRUE(until([&] { return failed_.size() == 2; }));
  EXPECT_EQ(failed_.back(), "the client closed the connection during the TLS handshake");
  const auto silent = connect("\x16");
  const auto began = Clock::now();
  ASSERT_TRUE(until([&] { return failed_.size() == 3; }));
  EXPECT_EQ(failed_.back(), "the client did not end the TLS handshake in time");
  EXPECT_GE(Clock::now() - began, milliseconds(290));
  EXPECT_TRUE(until([&] { return *places_ == 0; })) << "each is closed";
  EXPECT_TRUE(open_.empty());
}

TEST_F(HandshakesTest, ManyThatDoNotGoOnKeepNobodyOutAlsoNotOfTheirAddress) {
  constexpr std::size_t kPlaces = 20;
  start(seconds(20), {.of_one = kPlaces});
  std::vector<std::unique_ptr<Peer>> slow;
  for (std::size_t n = 0; n < kPlaces; ++n) slow.push_back(connect("\x16"));
  ASSERT_TRUE(until([&] { return handshakes_->waiting() == 0; }));
  const auto began = Clock::now();
  slow.push_back(connect("\x16"));
  const auto other = connect("", "127.0.0.2");
  EXPECT_TRUE(until([&] { return other->shake_hands() && open_.size() == 1; }, seconds(10)));
  EXPECT_TRUE(failed_.empty()) << "the address of the others has places of its own";
  const auto same = connect("");
  EXPECT_TRUE(until([&] { return same->shake_hands() && open_.size() == 2; }, seconds(10)));
  EXPECT_GE(Clock::now() - began, HandshakeQueue::kPatience - milliseconds(50));
  EXPECT_TRUE(until([&] { return failed_.size() == 2; })) << "two gave way, and no more";
  EXPECT_EQ(failed_.back(), "the client did not end the TLS handshake in time");
  until([] { return false; }, 2 * HandshakeQueue::kPatience);
  EXPECT_EQ(failed_.size(), 2U) << "nobody wants their places";
  slow.clear();
  EXPECT_TRUE(until([&] { return handshakes_->under_way() == 0; }));
}

TEST_F(HandshakesTest, WhoIsNotServedInTimeIsTold) {
  start(seconds(20), {.of_one = 0, .turn = milliseconds(100)});  // nobody has a place
  const auto late = connect("\x16");
  EXPECT_TRUE(until([&] { return !failed_.empty(); }, seconds(10)));
  EXPECT_EQ(
      failed_.front().find("the TLS handshake did not have its turn within 0.1 s, because 1 wait"),
      0U)
      << failed_.front();
  EXPECT_EQ(*places_, 0U);
}

TEST_F(HandshakesTest, EndsWhileSomeAreUnderWay) {
  start(seconds(20));
  const auto one = connect("\x16");
  const auto other = connect("\x16");
  handshakes_.reset();
  until([] { return false; }, milliseconds(50));
  EXPECT_TRUE(failed_.empty());
  EXPECT_EQ(*places_, 0U);
}

TEST_F(HandshakesTest, AfterItHasStoppedNoThreadUsesTheLoop) {
  const std::size_t threads = test::threads_here();
  start(seconds(20));
  const auto slow = connect("\x16");
  const auto failing = connect("GET / HTTP/1.1\r\n");
  handshakes_->stop();
  EXPECT_TRUE(test::comes_true([&] { return test::threads_here() == threads; }));
  until([] { return false; }, milliseconds(50));
  EXPECT_TRUE(failed_.empty()) << "nobody wants the result any more";
  EXPECT_EQ(*places_, 0U);
}

}  // namespace
}  // namespace c10dd::daemon
