// SPDX-License-Identifier: Apache-2.0
// Silent connections: one beside each old client of the same address, whatever the order of ends,
// and reads that are answered after the connection was closed.
#include "daemon/net/silent_sockets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace c10dd::daemon {
namespace {

/// A connection whose reads end when the test says so, also after it was closed.
class LateStream final : public Stream {
 public:
  LateStream(asio::io_context& loop, const std::string& address)
      : Stream(Ticket()), loop_(loop), address_(asio::ip::make_address(address)) {}

  void read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) override {
    EXPECT_EQ(reader_, nullptr) << "two reads at a time";
    into_ = into;
    reader_ = std::move(reader);
  }
  /// Ends the read with these bytes, or with the end of the connection. Returns false if there is
  /// no read.
  bool answer(std::string_view bytes) {
    const auto reader = std::exchange(reader_, nullptr);
    if (!reader) return false;
    const std::size_t n = asio::buffer_copy(into_, asio::buffer(bytes));
    reader->on_read(n, n == 0 ? ErrorCode(asio::error::eof) : ErrorCode());
    return true;
  }
  void close() override { ++closed; }
  void outlive_outages() override { patient = true; }
  asio::ip::address address() const override { return address_; }

  asio::awaitable<std::size_t> read_next(asio::mutable_buffer, ErrorCode&) override { co_return 0; }
  std::size_t read_now(asio::mutable_buffer, ErrorCode&) override { return 0; }
  asio::awaitable<std::size_t> write_next(asio::const_buffer, ErrorCode&) override { co_return 0; }
  std::size_t write_now(std::span<const asio::const_buffer>, ErrorCode&) override { return 0; }
  void when_writable(std::function<void()>) override {}
  void cancel() override {}
  void end_writing() override {}
  bool move_to(asio::io_context&, std::function<void(std::shared_ptr<Stream>)>) override {
    return false;
  }
  asio::any_io_executor executor() override { return loop_.get_executor(); }
  std::string peer() const override { return "late"; }
  int socket() const override { return -1; }

  int closed = 0;
  bool patient = false;

 private:
  asio::io_context& loop_;
  const asio::ip::address address_;
  asio::mutable_buffer into_;
  std::shared_ptr<StreamReader> reader_;
};

class SilentSocketsTest : public testing::Test {
 protected:
  /// Ends all reads, and recounts: whoever is neither kept nor served is closed, and held by
  /// nobody.
  void TearDown() override {
    silent_.reset();
    for (const auto& stream : all_) {
      stream->answer("");
      const bool was_served = std::ranges::count(served_, stream) > 0;
      EXPECT_EQ(stream->closed, was_served || std::ranges::count(refused_, stream) > 0 ? 0 : 1);
    }
    served_.clear();
    refused_.clear();
    for (const auto& stream : all_) EXPECT_EQ(stream.use_count(), 1) << "somebody holds it";
  }

  std::shared_ptr<LateStream> connection(const std::string& address = kFirst) {
    return all_.emplace_back(std::make_shared<LateStream>(loop_, address));
  }
  /// Returns a connection that is kept.
  std::shared_ptr<LateStream> kept(const std::string& address = kFirst) {
    auto stream = connection(address);
    EXPECT_TRUE(silent_->keep(stream));
    EXPECT_TRUE(stream->patient);
    return stream;
  }
  bool is_refused(const std::string& address) {
    const auto stream = refused_.emplace_back(connection(address));
    const bool refused = !silent_->keep(stream);
    EXPECT_FALSE(stream->patient);
    EXPECT_FALSE(stream->answer("x")) << "nobody reads from it";
    return refused;
  }
  void began(const std::string& address = kFirst) {
    silent_->old_client_began(asio::ip::make_address(address));
  }
  void ended(const std::string& address = kFirst) {
    silent_->old_client_ended(asio::ip::make_address(address));
  }

  static constexpr const char* kFirst = "10.0.0.1";
  static constexpr const char* kSecond = "10.0.0.2";

  asio::io_context loop_;
  std::vector<std::shared_ptr<Stream>> served_;
  std::vector<std::shared_ptr<LateStream>> all_;
  std::vector<std::shared_ptr<LateStream>> refused_;
  int dropped_ = 0;
  std::optional<SilentSockets> silent_{
      std::in_place,
      [this](std::shared_ptr<Stream> stream) { served_.push_back(std::move(stream)); },
      [this] { ++dropped_; }};
};

TEST_F(SilentSocketsTest, OneBesideEachOldClientOfItsAddress) {
  EXPECT_TRUE(is_refused(kFirst)) << "there is no old client";
  began();
  began();
  began(kSecond);
  kept();
  kept();
  EXPECT_TRUE(is_refused(kFirst)) << "two clients have two";
  EXPECT_EQ(silent_->kept(), 2u);
  kept(kSecond);
  EXPECT_TRUE(is_refused(kSecond));
  EXPECT_EQ(silent_->kept(), 3u);
  began();
  kept();
  EXPECT_EQ(silent_->kept(), 4u);
  EXPECT_EQ(dropped_, 0);
}

TEST_F(SilentSocketsTest, TheEndOfAClientClosesTheOldestOfItsAddress) {
  for (const char* address : {kFirst, kFirst, kFirst, kSecond}) began(address);
  const auto oldest = kept();
  const auto second = kept();
  const auto other = kept(kSecond);
  ended();  // two clients are left, which have two
  EXPECT_EQ(oldest->closed + second->closed, 0);
  EXPECT_EQ(dropped_, 0);
  ended();
  EXPECT_EQ(oldest->closed, 1);
  EXPECT_EQ(second->closed + other->closed, 0);
  EXPECT_EQ(silent_->kept(), 2u);
  EXPECT_EQ(dropped_, 1);
  ended();
  EXPECT_EQ(second->closed, 1);
  EXPECT_EQ(silent_->kept(), 1u);
  EXPECT_EQ(dropped_, 2);
  ended();  // of a client that nobody has counted
  began();
  kept();
  EXPECT_TRUE(is_refused(kFirst)) << "one client is there";
  ended(kSecond);
  EXPECT_EQ(other->closed, 1);
  EXPECT_TRUE(is_refused(kSecond));
  EXPECT_EQ(silent_->kept(), 1u);
}

TEST_F(SilentSocketsTest, OneThatSpeaksIsServedAndLeavesItsPlace) {
  began();
  began();
  const auto first = kept();
  const auto second = kept();
  EXPECT_TRUE(second->answer("abc"));
  EXPECT_EQ(served_, std::vector<std::shared_ptr<Stream>>{second});
  EXPECT_EQ(second->head(), "abc");
  EXPECT_EQ(silent_->kept(), 1u);
  const auto third = kept();
  EXPECT_TRUE(is_refused(kFirst));
  EXPECT_TRUE(third->answer(std::string(200, 'x')));
  EXPECT_EQ(third->head(), std::string(64, 'x')) << "the rest is still in the connection";
  EXPECT_EQ(served_.size(), 2u);
  EXPECT_EQ(dropped_, 0);
  ended();
  EXPECT_EQ(first->closed, 0) << "one client is left, and one silent connection";
  ended();
  EXPECT_EQ(first->closed, 1);
  EXPECT_EQ(silent_->kept(), 0u);
}

TEST_F(SilentSocketsTest, OneThatEndsIsClosedOnceAndLeavesItsPlace) {
  began();
  for (int round = 0; round < 33; ++round) {
    const auto stream = kept();
    EXPECT_TRUE(is_refused(kFirst));
    EXPECT_TRUE(stream->answer(""));
    EXPECT_EQ(stream->closed, 1);
    EXPECT_EQ(silent_->kept(), 0u);
    EXPECT_EQ(dropped_, round + 1);
  }
  EXPECT_TRUE(served_.empty());
  ended();
  EXPECT_EQ(dropped_, 33) << "there was none to close";
}

TEST_F(SilentSocketsTest, BytesThatComeAfterItWasClosedServeNobody) {
  began();
  began();
  const auto closed = kept();
  const auto left = kept();
  ended();
  EXPECT_EQ(closed->closed, 1);
  EXPECT_TRUE(closed->answer("late"));
  EXPECT_TRUE(served_.empty());
  EXPECT_EQ(closed->closed, 1);
  EXPECT_EQ(dropped_, 1);
  EXPECT_EQ(silent_->kept(), 1u);
  silent_.reset();
  EXPECT_EQ(left->closed, 1);
  EXPECT_TRUE(left->answer("later still"));
  EXPECT_TRUE(served_.empty());
  EXPECT_EQ(dropped_, 1) << "nobody is told after the end";
}

TEST_F(SilentSocketsTest, ItsEndClosesThoseOfAllAddresses) {
  for (const char* address : {kFirst, kFirst, kSecond}) {
    began(address);
    kept(address);
  }
  silent_.reset();
  for (const auto& stream : all_) EXPECT_EQ(stream->closed, 1);
}

}  // namespace
}  // namespace c10dd::daemon
