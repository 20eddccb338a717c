// SPDX-License-Identifier: Apache-2.0
// Tests which events SocketPoll reports to the watchers of its sockets.
#include "daemon/shard/socket_poll.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace c10dd::daemon {
namespace {

/// One end of a pair of connected sockets. Counts how often it was told to be ready.
class End final : public SocketPoll::Watcher {
 public:
  End(SocketPoll& poll, int socket)
      : poll_(poll), socket_(socket), entry_(poll.add(socket, *this)) {}
  ~End() override { close(); }

  void want(std::uint32_t interest) { poll_.want(entry_, wanted_ = interest); }
  void close() {
    if (socket_ < 0) return;
    poll_.remove(entry_);
    ::close(std::exchange(socket_, -1));
  }
  /// Sends until there is no more room.
  void fill() {
    const std::string bytes(1 << 16, 'x');
    while (::send(socket_, bytes.data(), bytes.size(), 0) > 0) {
    }
    poll_.exhausted(entry_, SocketPoll::writing);
  }
  void send(const std::string& bytes) {
    ASSERT_EQ(::send(socket_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  /// Reads at most `at_once` bytes. Wants nothing after the end of the peer.
  void on_readable() override {
    ++reads;
    std::string into(at_once, '\0');
    const ssize_t n = ::recv(socket_, into.data(), into.size(), 0);
    if (n > 0) got.append(into, 0, static_cast<std::size_t>(n));
    if (n == 0) want(SocketPoll::nothing);
    if (n < 0) poll_.exhausted(entry_, SocketPoll::reading | SocketPoll::more);
    if (n > 0 && n < static_cast<ssize_t>(at_once)) poll_.exhausted(entry_, SocketPoll::reading);
    if (then) then();
    want(wanted_);
  }
  void on_writable() override {
    ++writes;
    want(SocketPoll::nothing);
  }
  void on_refused(const boost::system::error_code& why) override {
    refused = why;
    want(SocketPoll::nothing);
  }

  std::size_t at_once = 1;
  std::string got;
  int reads = 0;
  int writes = 0;
  boost::system::error_code refused;
  std::function<void()> then;

 private:
  SocketPoll& poll_;
  int socket_;
  const SocketPoll::Entry entry_;
  std::uint32_t wanted_ = 0;
};

class SocketPollTest : public testing::Test {
 protected:
  std::pair<std::unique_ptr<End>, std::unique_ptr<End>> connected() {
    int both[2] = {};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both), 0);
    SocketPoll& poll = SocketPoll::of(loop);
    return {std::make_unique<End>(poll, both[0]), std::make_unique<End>(poll, both[1])};
  }
  void run() {
    loop.restart();
    loop.run();  // ends when nothing is wanted
  }

  boost::asio::io_context loop;
};

TEST_F(SocketPollTest, TellsAgainWhileBytesAreLeft) {
  const auto [a, b] = connected();
  b->send("abc");
  a->want(SocketPoll::reading);
  a->then = [a = a.get()] {
    if (a->reads == 3) a->want(SocketPoll::nothing);
  };
  run();
  EXPECT_EQ(a->reads, 3) << "one byte was read each time";
}

TEST_F(SocketPollTest, AnExhaustedSocketIsReportedAgainWhenMoreBytesArrive) {
  const auto [a, b] = connected();
  a->at_once = 10;
  b->send("abc");
  a->want(SocketPoll::reading);
  a->then = [&, a = a.get(), b = b.get()] {
    if (a->reads == 2) return a->want(SocketPoll::nothing);
    boost::asio::post(loop, [&, b] { boost::asio::post(loop, [b] { b->send("de"); }); });
  };
  run();
  EXPECT_EQ(a->got, "abcde");
  EXPECT_EQ(a->reads, 2);
}

TEST_F(SocketPollTest, ReportsTheEndAfterTheLastBytes) {
  const auto [a, b] = connected();
  a->at_once = 10;
  b->send("abc");
  b->close();
  a->want(SocketPoll::reading);
  run();
  EXPECT_EQ(a->got, "abc");
  EXPECT_EQ(a->reads, 2) << "the second read finds the end";
}

TEST_F(SocketPollTest, RemembersBytesThatArrivedWhileNothingWasWanted) {
  const auto [a, b] = connected();
  const auto [c, d] = connected();
  a->want(SocketPoll::reading);
  a->want(SocketPoll::nothing);
  b->send("x");
  c->want(SocketPoll::reading);
  d->send("y");
  c->then = [c = c.get()] { c->want(SocketPoll::nothing); };
  run();
  EXPECT_EQ(a->got, "");
  a->then = [a = a.get()] { a->want(SocketPoll::nothing); };
  a->want(SocketPoll::reading);
  run();
  EXPECT_EQ(a->got, "x");
}

TEST_F(SocketPollTest, ReportsThatThereIsRoomAgain) {
  const auto [a, b] = connected();
  a->at_once = 1 << 20;
  b->fill();
  b->want(SocketPoll::writing);
  boost::asio::post(loop, [&, a = a.get(), b = b.get()] {
    boost::asio::post(loop, [&, a, b] {
      EXPECT_EQ(b->writes, 0) << "there is no room";
      a->then = [a] { a->want(SocketPoll::nothing); };
      a->want(SocketPoll::reading);
    });
  });
  run();
  EXPECT_EQ(b->writes, 1);
}

TEST_F(SocketPollTest, ServesMoreSocketsThanOneCallOfEpollReturns) {
  std::vector<std::pair<std::unique_ptr<End>, std::unique_ptr<End>>> pairs(300);
  for (auto& [a, b] : pairs) {
    std::tie(a, b) = connected();
    a->want(SocketPoll::reading);
    a->then = [a = a.get()] { a->want(SocketPoll::nothing); };
  }
  boost::asio::post(loop, [&] {
    for (auto& [a, b] : pairs) b->send("x");
  });
  run();
  for (auto& [a, b] : pairs) EXPECT_EQ(a->got, "x");
}

TEST_F(SocketPollTest, TellsOnlyWhatIsWanted) {
  const auto [a, b] = connected();
  b->send("abc");
  a->want(SocketPoll::writing);
  run();
  EXPECT_EQ(a->reads, 0);
  EXPECT_EQ(a->writes, 1);
  a->want(SocketPoll::reading | SocketPoll::writing);
  a->then = [a = a.get()] { a->want(SocketPoll::nothing); };
  run();
  EXPECT_EQ(a->writes, 2);
}

TEST_F(SocketPollTest, TheEndOfThePeerCountsAsBytes) {
  const auto [a, b] = connected();
  a->want(SocketPoll::reading);
  b->close();
  run();
  EXPECT_EQ(a->reads, 1);
}

TEST_F(SocketPollTest, APeerThatIsGoneDisturbsNobodyWhileNothingIsWanted) {
  const auto [a, b] = connected();
  const auto [c, d] = connected();
  a->want(SocketPoll::reading);
  a->want(SocketPoll::nothing);
  b->close();
  d->send("x");
  c->want(SocketPoll::reading);
  c->then = [c = c.get()] { c->want(SocketPoll::nothing); };
  run();
  EXPECT_EQ(a->reads, 0);
  EXPECT_EQ(c->reads, 1);
  a->want(SocketPoll::reading);
  run();
  EXPECT_EQ(a->reads, 1) << "it is told as soon as it asks";
}

TEST_F(SocketPollTest, SaysThatTheKernelRefusesADescriptor) {
  End file(SocketPoll::of(loop), ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  file.want(SocketPoll::reading);
  run();
  EXPECT_EQ(file.refused.value(), EPERM) << "no epoll watches a file";
}

TEST_F(SocketPollTest, ASocketMayBeRemovedWhileOthersAreServed) {
  const auto [a, b] = connected();
  const auto [c, d] = connected();
  std::unique_ptr<End> e;
  std::unique_ptr<End> f;
  for (End* sender : {b.get(), d.get()}) sender->send("x");
  for (End* reader : {a.get(), c.get()}) reader->want(SocketPoll::reading);
  // Whichever is served first removes both. A new socket gets the place of one of them; the event
  // of the other one, which is due in the same turn, must not reach it.
  a->then = c->then = [&, a = a.get(), c = c.get()] {
    a->close();
    c->close();
    std::tie(e, f) = connected();
    e->want(SocketPoll::reading);
    boost::asio::post(loop, [&] { e->want(SocketPoll::nothing); });
  };
  run();
  EXPECT_EQ(a->reads + c->reads, 1);
  EXPECT_EQ(e->reads, 0);
}

}  // namespace
}  // namespace c10dd::daemon
