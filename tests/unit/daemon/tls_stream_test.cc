// SPDX-License-Identifier: Apache-2.0
// A stream that encrypts: a session must not notice it, whatever the kernel takes and gives.
#include "daemon/net/tls_stream.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "daemon/net/plain_stream.h"
#include "daemon/shard/loop.h"
#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kRecordBytes = 16'384 + 256;  // encrypted

/// Remembers how reads have ended.
class Results final : public StreamReader {
 public:
  void on_read(std::size_t bytes, const ErrorCode& failed) override {
    ++calls;
    count = bytes;
    error = failed;
  }
  int calls = 0;
  std::size_t count = 0;
  ErrorCode error;
};

class TlsStreamTest : public testing::Test {
 protected:
  TlsStreamTest() : TlsStreamTest(tls::Ca()) {}

  /// Reads for the client what the stream has sent, while the loop turns.
  std::string read_by_peer(std::size_t bytes) {
    std::string got;
    std::string into(20'000, '\0');
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (got.size() < bytes && std::chrono::steady_clock::now() < end) {
      turn();
      feed_peer();
      const auto count = peer_.read(into);
      if (!count) break;
      got.append(into, 0, *count);
    }
    return got;
  }
  /// Lets the client take what lies in its socket.
  void feed_peer() {
    ErrorCode failed;
    std::string bytes(100'000, '\0');
    socket_.non_blocking(true);
    bytes.resize(socket_.read_some(asio::buffer(bytes), failed));
    peer_.receive(bytes);
  }
  void send_to_stream() {
    while (!peer_.outgoing().empty()) {
      const std::string_view bytes = peer_.outgoing();
      ErrorCode failed;
      const std::size_t sent = socket_.write_some(asio::buffer(bytes), failed);
      peer_.sent(sent);
      if (failed) turn();
    }
  }
  void say(std::string_view text) {
    while (!text.empty()) text.remove_prefix(*peer_.write(text));
    send_to_stream();
  }

  void turn(Loop& loop) {
    loop.restart();
    loop.run_one_for(milliseconds(1));
  }
  void turn() { turn(loop_); }
  /// Turns the loop until `done`. Returns false after a while.
  template <class Done>
  bool until(Done done) {
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      turn();
    }
    return true;
  }
  ErrorCode read_error() {
    ErrorCode failed = asio::error::would_block;
    until([&] {
      buffer_.resize(100);
      stream_->read_now(asio::buffer(buffer_), failed);
      return failed != asio::error::would_block;
    });
    return failed;
  }

  Loop loop_;
  const std::shared_ptr<Ticket::Count> places_ = std::make_shared<Ticket::Count>(0);
  tcp::socket socket_{loop_};
  tls::Channel peer_;  // the client's end
  std::shared_ptr<TlsStream> stream_;
  std::string buffer_;

 private:
  explicit TlsStreamTest(const tls::Ca& ca)
      : TlsStreamTest(
            tls::Wire(tls::client_of(tls::CaHash{ca.key.hash()}), tls::server_of(ca.daemon()))) {}
  explicit TlsStreamTest(tls::Wire wire) : peer_(opened(wire)) {
    tcp::acceptor acceptor(loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    socket_.connect(acceptor.local_endpoint());
    auto plain = std::make_shared<PlainStream>(acceptor.accept(), Ticket(places_));
    stream_ = TlsStream::over(std::move(plain), std::move(wire.server));
  }
  static tls::Channel opened(tls::Wire& wire) {
    EXPECT_EQ(wire.open(), "");
    return std::move(wire.client);
  }
};

TEST_F(TlsStreamTest, ReadsAndWritesWithoutWaiting) {
  ErrorCode failed;
  buffer_.resize(16);
  EXPECT_EQ(stream_->read_now(asio::buffer(buffer_), failed), 0U);
  EXPECT_EQ(failed, asio::error::would_block);
  say("hello");
  ASSERT_TRUE(until([&] { return stream_->read_now(asio::buffer(buffer_, 2), failed) == 2; }));
  EXPECT_EQ(buffer_.substr(0, 2), "he");
  EXPECT_EQ(stream_->read_now(asio::buffer(buffer_), failed), 3U) << "what is decrypted counts";
  const asio::const_buffer parts[] = {{"one ", 4}, {"two", 3}};
  EXPECT_EQ(stream_->write_now(parts, failed), 7U);
  EXPECT_FALSE(failed);
  EXPECT_EQ(read_by_peer(7), "one two");
  EXPECT_LT(stream_->channel().held(), 100U);
  EXPECT_EQ(*places_, 1U);
  EXPECT_TRUE(stream_->is_local());
  stream_.reset();
  EXPECT_EQ(*places_, 0U);
}

TEST_F(TlsStreamTest, ReadIntoIsAnsweredLaterAlsoForBytesThatAreThere) {
  const auto results = std::make_shared<Results>();
  buffer_.resize(16);
  stream_->read_into(asio::buffer(buffer_, 3), results);
  say("hello");
  ASSERT_TRUE(until([&] { return results->calls == 1; }));
  EXPECT_EQ(buffer_.substr(0, results->count), "hel");
  stream_->read_into(asio::buffer(buffer_), results);
  EXPECT_EQ(results->calls, 1) << "never during the call";
  ASSERT_TRUE(until([&] { return results->calls == 2; }));
  EXPECT_EQ(buffer_.substr(0, results->count), "lo");
  stream_->read_into(asio::buffer(buffer_), results);
  stream_->cancel();
  EXPECT_EQ(results->calls, 2);
  ASSERT_TRUE(until([&] { return results->calls == 3; }));
  EXPECT_EQ(results->error, asio::error::operation_aborted);
  say("more");
  stream_->read_into(asio::buffer(buffer_), results);
  ASSERT_TRUE(until([&] { return results->calls == 4; }));
  EXPECT_EQ(buffer_.substr(0, results->count), "more") << "a cancelled read loses nothing";
}

TEST_F(TlsStreamTest, HoldsOneRecordAtMostWhenThePeerReadsNothing) {
  const std::string large(8'000'000, 'x');
  std::size_t written = 0;
  ErrorCode failed;
  while (!failed) {
    const asio::const_buffer rest = asio::buffer(large) + written;
    written += stream_->write_now({&rest, 1}, failed);
    ASSERT_LT(written, large.size());
    ASSERT_LE(stream_->channel().outgoing().size(), kRecordBytes);
  }
  EXPECT_EQ(failed, asio::error::would_block);
  bool woken = false;
  stream_->when_writable([&] { woken = true; });
  turn();
  EXPECT_FALSE(woken);
  EXPECT_EQ(read_by_peer(written), large.substr(0, written));
  EXPECT_TRUE(until([&] { return woken; }));
}

TEST_F(TlsStreamTest, CoroutinesCarryMuchBothWays) {
  std::string large(3'000'000, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 >> 3);
  bool written = false;
  std::string read;
  asio::co_spawn(
      loop_,
      [&]() -> asio::awaitable<void> {
        ErrorCode failed;
        co_await stream_->write_all(asio::buffer(large), failed);
        written = !failed;
        std::string into(50'000, '\0');
        while (!failed && read.size() < large.size()) {
          const std::size_t n = co_await stream_->read_next(asio::buffer(into), failed);
          read.append(into, 0, n);
        }
      },
      [](const std::exception_ptr&) {});
  EXPECT_EQ(read_by_peer(large.size()), large);
  EXPECT_TRUE(until([&] { return written; }));
  say(large);
  EXPECT_TRUE(until([&] { return read.size() == large.size(); }));
  EXPECT_EQ(read, large);
}

TEST_F(TlsStreamTest, AnEndIsAnEnd) {
  peer_.close();
  send_to_stream();
  EXPECT_EQ(read_error(), asio::error::eof);
  stream_->end_writing();
  std::string into(10, '\0');
  EXPECT_TRUE(until([&] {
    feed_peer();
    return peer_.read(into) && peer_.has_ended();
  }));
}

TEST_F(TlsStreamTest, ACutIsAFailure) {
  socket_.close();
  EXPECT_EQ(read_error(), asio::error::connection_aborted);
}

TEST_F(TlsStreamTest, AChangedByteEndsTheConnectionWithAnAlert) {
  ASSERT_TRUE(peer_.write("secret"));
  std::string bytes(peer_.outgoing());
  peer_.sent(bytes.size());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  socket_.write_some(asio::buffer(bytes));
  EXPECT_EQ(stream_->failure_text(), "");
  EXPECT_EQ(read_error(), asio::error::connection_aborted);
  EXPECT_EQ(stream_->failure_text(),
            "TLS with the client failed: decryption failed or bad record mac");
  std::string into(10, '\0');
  EXPECT_TRUE(until([&] {
    feed_peer();
    return !peer_.read(into);
  }));
}

TEST_F(TlsStreamTest, ClosingEndsWhatWaits) {
  const auto results = std::make_shared<Results>();
  buffer_.resize(16);
  stream_->read_into(asio::buffer(buffer_), results);
  stream_->close();
  EXPECT_TRUE(until([&] { return results->calls == 1; }));
  EXPECT_TRUE(results->error);
  ErrorCode failed;
  const asio::const_buffer part("x", 1);
  EXPECT_EQ(stream_->write_now({&part, 1}, failed), 0U);
  EXPECT_TRUE(failed);
  EXPECT_FALSE(stream_->move_to(loop_, [](const std::shared_ptr<Stream>&) { FAIL(); }));
}

TEST_F(TlsStreamTest, MovesWithAllThatIsUnderWay) {
  ErrorCode failed;
  say("hello");
  buffer_.resize(16);
  ASSERT_TRUE(until([&] { return stream_->read_now(asio::buffer(buffer_, 1), failed) == 1; }));
  const std::string large(8'000'000, 'x');
  std::size_t written = 0;
  while (!failed) {
    const asio::const_buffer rest = asio::buffer(large) + written;
    written += stream_->write_now({&rest, 1}, failed);
  }
  ASSERT_FALSE(stream_->channel().outgoing().empty());
  stream_->put_head("head");
  Loop other;
  std::shared_ptr<Stream> moved;
  ASSERT_TRUE(stream_->move_to(other, [&](std::shared_ptr<Stream> to) { moved = std::move(to); }));
  stream_.reset();
  while (!moved) turn(other);
  EXPECT_EQ(*places_, 1U);
  EXPECT_EQ(moved->take_head(), "head");
  EXPECT_EQ(moved->read_now(asio::buffer(buffer_), failed), 4U);
  EXPECT_EQ(buffer_.substr(0, 4), "ello");
  std::string got;
  std::string into(20'000, '\0');
  const auto end = std::chrono::steady_clock::now() + seconds(30);
  while (got.size() < written && std::chrono::steady_clock::now() < end) {
    turn(other);
    feed_peer();
    const auto count = peer_.read(into);
    ASSERT_TRUE(count);
    got.append(into, 0, *count);
  }
  EXPECT_EQ(got.size(), written);
}

}  // namespace
}  // namespace c10dd::daemon
