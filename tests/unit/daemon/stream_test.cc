// SPDX-License-Identifier: Apache-2.0
// What all streams have in common, and the stream over a TCP socket.
#include "daemon/net/stream.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <memory>
#include <string>

#include "daemon/net/plain_stream.h"
#include "daemon/shard/loop.h"
#include "tests/unit/daemon/memory_stream.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;

/// Turns the loop until the coroutine has ended. Returns true if it did.
bool run(Loop& loop, std::function<asio::awaitable<void>()> body) {
  bool ended = false;
  asio::co_spawn(loop, std::move(body), [&](const std::exception_ptr&) { ended = true; });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!ended && std::chrono::steady_clock::now() < end) {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(10));
  }
  return ended;
}

class StreamTest : public testing::Test {
 protected:
  Loop loop_;
  std::shared_ptr<MemoryWire> wire_ = std::make_shared<MemoryWire>();
  std::shared_ptr<Stream> stream_ = std::make_shared<MemoryStream>(loop_, wire_);
};

TEST_F(StreamTest, HeadIsReadFirst) {
  stream_->put_head("head");
  wire_->say("body");
  std::string read;
  ASSERT_TRUE(run(loop_, [&]() -> asio::awaitable<void> {
    std::array<char, 3> buffer;
    ErrorCode failed;
    while (read.size() < 8) {
      const std::size_t n = co_await stream_->read_some(asio::buffer(buffer), failed);
      EXPECT_FALSE(failed);
      read += std::string_view(buffer.data(), n);
      read += '|';
    }
  }));
  EXPECT_EQ(read, "hea|d|bod|");
  EXPECT_EQ(stream_->head(), "");
  stream_->put_head("again");
  EXPECT_EQ(stream_->take_head(), "again");
  EXPECT_EQ(stream_->head(), "");
}

TEST_F(StreamTest, WritesAllHoweverLittleGoes) {
  wire_->give_room(0);
  bool written = false;
  asio::co_spawn(
      loop_,
      [&]() -> asio::awaitable<void> {
        ErrorCode failed;
        co_await stream_->write_all(asio::buffer("0123456789", 10), failed);
        EXPECT_FALSE(failed);
        written = true;
      },
      asio::detached);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(written);
    wire_->give_room(1);
    loop_.restart();
    loop_.poll();
  }
  EXPECT_TRUE(written);
  EXPECT_EQ(wire_->take(), "0123456789");
}

TEST_F(StreamTest, WriteThatFailsEnds) {
  stream_->close();
  ASSERT_TRUE(run(loop_, [&]() -> asio::awaitable<void> {
    ErrorCode failed;
    co_await stream_->write_all(asio::buffer("0123456789", 10), failed);
    EXPECT_TRUE(failed);
  }));
}

TEST_F(StreamTest, FinishReadsWhatStillComes) {
  bool finished = false;
  wire_->say("unread");
  asio::co_spawn(
      loop_,
      [&]() -> asio::awaitable<void> {
        co_await stream_->finish();
        finished = true;
      },
      asio::detached);
  loop_.poll();
  EXPECT_TRUE(wire_->session_ended());
  EXPECT_FALSE(wire_->unread());
  EXPECT_FALSE(wire_->closed());
  wire_->say("more");
  wire_->hang_up();
  loop_.restart();
  loop_.poll();
  EXPECT_TRUE(finished);
  EXPECT_TRUE(wire_->closed());
}

TEST_F(StreamTest, PeerThatDoesNotEndIsWaitedForASecond) {
  const auto other = std::make_shared<MemoryWire>();
  MemoryStream unread(loop_, other);
  other->say("unread");
  unsigned finished = 0;
  const auto end = [&](asio::awaitable<void> ended) -> asio::awaitable<void> {
    co_await std::move(ended);
    ++finished;
  };
  asio::co_spawn(loop_, end(stream_->finish()), asio::detached);
  asio::co_spawn(loop_, end(unread.finish_unread()), asio::detached);
  const auto begin = std::chrono::steady_clock::now();
  while (finished < 2 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(30)) {
    loop_.restart();
    loop_.run_one_for(std::chrono::milliseconds(10));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(wire_->closed() && other->closed());
  EXPECT_TRUE(other->unread());
}

// ---- over a socket -----------------------------------------------------------------------------

class PlainStreamTest : public testing::Test {
 protected:
  PlainStreamTest() {
    tcp::acceptor acceptor(loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    peer_.connect(acceptor.local_endpoint());
    stream_ = std::make_shared<PlainStream>(acceptor.accept(), Ticket(places_));
  }

  std::string read_by_peer(std::size_t bytes) {
    std::string read(bytes, '\0');
    ErrorCode failed;
    read.resize(asio::read(peer_, asio::buffer(read), failed));
    return read;
  }

  Loop loop_;
  const std::shared_ptr<Ticket::Count> places_ = std::make_shared<Ticket::Count>(0);
  tcp::socket peer_{loop_};
  std::shared_ptr<Stream> stream_;
};

TEST_F(PlainStreamTest, ReadsAndWrites) {
  std::array<char, 16> buffer;
  ErrorCode failed;
  EXPECT_EQ(stream_->read_now(asio::buffer(buffer), failed), 0u);
  EXPECT_EQ(failed, asio::error::would_block);
  asio::write(peer_, asio::buffer("hello", 5));
  ASSERT_TRUE(run(loop_, [&]() -> asio::awaitable<void> {
    const std::size_t n = co_await stream_->read_next(asio::buffer(buffer), failed);
    EXPECT_EQ(std::string_view(buffer.data(), n), "hello");
    co_await stream_->write_all(asio::buffer("one ", 4), failed);
    EXPECT_FALSE(failed);
  }));
  const std::array<asio::const_buffer, 2> two = {asio::buffer("two ", 4), asio::buffer("three", 5)};
  EXPECT_EQ(stream_->write_now(two, failed), 9u);
  EXPECT_EQ(stream_->write_now(std::span(two).subspan(1), failed), 5u);
  EXPECT_EQ(read_by_peer(18), "one two threethree");
}

TEST_F(PlainStreamTest, ReadsTheBytesAfterUrgentData) {
  asio::write(peer_, asio::buffer("before", 6));
  peer_.send(asio::buffer("!", 1), tcp::socket::message_out_of_band);
  asio::write(peer_, asio::buffer("after", 5));
  std::string read;
  EXPECT_TRUE(run(loop_, [&]() -> asio::awaitable<void> {
    std::array<char, 16> buffer;
    ErrorCode failed;
    while (read.size() < 11) {
      const std::size_t n = co_await stream_->read_next(asio::buffer(buffer), failed);
      EXPECT_FALSE(failed);
      read += std::string_view(buffer.data(), n);
    }
  }));
  EXPECT_EQ(read, "beforeafter") << "the urgent byte is not part of the stream";
}

TEST_F(PlainStreamTest, KnowsItsPeer) {
  EXPECT_EQ(stream_->peer(), "127.0.0.1:" + std::to_string(peer_.local_endpoint().port()));
  EXPECT_TRUE(stream_->is_local());
  stream_->close();
  EXPECT_EQ(stream_->peer(), "unknown");
  EXPECT_FALSE(stream_->is_local());
}

TEST_F(PlainStreamTest, OutlivesOutagesOfTenMinutes) {
  // The kernel has one socket for this connection whose peer has that port: the stream's.
  const auto option = [&](int name) {
    int value = -1;
    for (int fd = 0; fd < 1'024; ++fd) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      const bool found = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
                         ntohs(peer.sin_port) == peer_.local_endpoint().port();
      size = sizeof value;
      if (!found) continue;
      EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, name, &value, &size), 0);
    }
    return value;
  };
  stream_->outlive_outages();
  EXPECT_EQ(option(TCP_KEEPIDLE), 5);
  EXPECT_EQ(option(TCP_KEEPINTVL), 5);
  EXPECT_EQ(option(TCP_KEEPCNT), 121);
  EXPECT_EQ(option(TCP_USER_TIMEOUT), 600'000);
  EXPECT_TRUE(answers(stream_->peer_signs()));
}

TEST_F(PlainStreamTest, MappedAddressIsLocalToo) {
  ErrorCode failed;
  tcp::acceptor acceptor(loop_);
  acceptor.open(tcp::v6(), failed);
  if (!failed) acceptor.set_option(asio::ip::v6_only(false), failed);
  if (!failed) acceptor.bind(tcp::endpoint(tcp::v6(), 0), failed);
  if (!failed) acceptor.listen(1, failed);
  if (failed) GTEST_SKIP() << "no IPv6 here: " << failed.message();
  tcp::socket peer(loop_);
  peer.connect({asio::ip::address_v4::loopback(), acceptor.local_endpoint().port()});
  const PlainStream mapped(acceptor.accept(), {});
  EXPECT_TRUE(mapped.is_local());
  EXPECT_TRUE(mapped.address().is_v4());
}

TEST_F(PlainStreamTest, TellsWhenThereIsRoomToWrite) {
  const std::string much(1 << 20, 'x');
  const asio::const_buffer buffer = asio::buffer(much);
  ErrorCode failed;
  std::size_t written = 0;
  while (!failed) written += stream_->write_now(std::span(&buffer, 1), failed);
  EXPECT_EQ(failed, asio::error::would_block);
  bool ready = false;
  stream_->when_writable([&] { ready = true; });
  loop_.poll();
  EXPECT_FALSE(ready);
  EXPECT_EQ(read_by_peer(written).size(), written);
  ASSERT_TRUE(run(loop_, [&]() -> asio::awaitable<void> {
    const std::size_t n = co_await stream_->write_next(buffer, failed);
    EXPECT_GT(n, 0u);
  }));
  EXPECT_TRUE(ready);
}

TEST_F(PlainStreamTest, CancelEndsAReadAndTheConnectionGoesOn) {
  std::array<char, 16> buffer;
  ErrorCode failed;
  asio::steady_timer soon(loop_, asio::steady_timer::time_point::min());
  ASSERT_TRUE(run(loop_, [&]() -> asio::awaitable<void> {
    soon.async_wait([&](const ErrorCode&) { stream_->cancel(); });
    co_await stream_->read_next(asio::buffer(buffer), failed);
  }));
  EXPECT_EQ(failed, asio::error::operation_aborted);
  const asio::const_buffer word = asio::buffer("on", 2);
  EXPECT_EQ(stream_->write_now(std::span(&word, 1), failed), 2u);
  stream_->end_writing();
  EXPECT_EQ(read_by_peer(10), "on") << "and then the end";
}

TEST_F(PlainStreamTest, MovesToAnotherLoopWithHeadAndPlace) {
  Loop other;
  stream_->put_head("head");
  std::shared_ptr<Stream> moved;
  stream_->move_to(other, [&](std::shared_ptr<Stream> there) { moved = std::move(there); });
  stream_.reset();
  EXPECT_EQ(*places_, 1u) << "it is on its way";
  loop_.poll();
  EXPECT_EQ(moved, nullptr);
  other.poll();
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved->head(), "head");
  asio::write(peer_, asio::buffer("hello", 5));
  std::array<char, 16> buffer;
  ASSERT_TRUE(run(other, [&]() -> asio::awaitable<void> {
    ErrorCode failed;
    const std::size_t n = co_await moved->read_next(asio::buffer(buffer), failed);
    EXPECT_EQ(n, 5u);
  }));
  moved.reset();
  EXPECT_EQ(*places_, 0u);
}

TEST_F(PlainStreamTest, OneThatIsOverGoesNowhere) {
  Loop other;
  stream_->close();
  stream_->move_to(other, [](const std::shared_ptr<Stream>&) { ADD_FAILURE(); });
  other.poll();
}

}  // namespace
}  // namespace c10dd::daemon
