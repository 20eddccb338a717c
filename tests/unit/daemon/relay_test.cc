// SPDX-License-Identifier: Apache-2.0
// The relay: it finds the owner that takes a client, over owners that refuse, lie, are silent,
// close in the middle of a reply, or reply when the client has gone.
#include "daemon/net/relay.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/unit/daemon/listener_ports.h"
#include "tests/unit/daemon/relay_world.h"
#include "tests/unit/fake_server.h"

namespace c10dd::daemon {
namespace {

using test::FakeReply;
using Then = FakeReply::Then;

/// Another daemon: takes each client, and sends back what the client says after the owner's name.
class FakeOwner {
 public:
  explicit FakeOwner(std::string name) : name_(std::move(name)) {}

  /// The next frames get these replies, the others are taken.
  void say(std::deque<FakeReply> replies) {
    const std::lock_guard lock(mutex_);
    replies_ = std::move(replies);
  }
  std::vector<native::RelayFrame> frames() const {
    const std::lock_guard lock(mutex_);
    return frames_;
  }
  const std::string& address() const { return server_.address(); }
  test::FakeServer& server() { return server_; }

 private:
  static std::optional<test::FakeRequest> take(std::string& in) {
    if (in.empty()) return std::nullopt;
    if (in.front() != native::kMagic.front()) return test::FakeRequest{"bytes", take_all(in)};
    if (in.size() < native::kMagic.size()) return std::nullopt;
    const auto frame = native::cut_request(std::string_view(in).substr(native::kMagic.size()),
                                           limits::kHelloFrameBytes);
    if (!frame || !frame->has_value()) return std::nullopt;
    test::FakeRequest request{"frame", std::string((*frame)->body)};
    in.erase(0, native::kMagic.size() + (*frame)->size);
    return request;
  }
  static std::string take_all(std::string& in) { return std::exchange(in, {}); }

  FakeReply reply(const test::FakeRequest& asked) {
    if (asked.name == "bytes") return {name_ + asked.argument};
    const std::lock_guard lock(mutex_);
    const auto frame = native::decode_relay(asked.argument);
    EXPECT_TRUE(frame);
    if (frame) frames_.push_back(*frame);
    if (replies_.empty()) return {native::encode_relay_reply({})};
    FakeReply next = replies_.front();
    replies_.pop_front();
    return next;
  }

  const std::string name_;
  mutable std::mutex mutex_;
  std::deque<FakeReply> replies_;
  std::vector<native::RelayFrame> frames_;
  test::FakeServer server_{take, [this](const test::FakeRequest& asked) { return reply(asked); }};
};

class RelayTest : public RelayWorld {
 protected:
  static constexpr native::RelayKey kKeys[2] = {{2, 22}, {3, 33}};

  void SetUp() override {
    RelayWorld::SetUp();
    join({row(2, {owners_[0].address(), nobody_, "no-port", "127.0.0.1:x"}, kKeys[0]),
          row(3, {owners_[1].address()}, kKeys[1]), row(4, {kOld}, {})});
  }
  void TearDown() override {
    RelayWorld::TearDown();
    for (FakeOwner& owner : owners_) {
      EXPECT_TRUE(daemon_.turn_until([&] {
        owner.server().release();
        return owner.server().open_connections() == 0;
      }));
    }
  }

  using Link = std::optional<Result<std::shared_ptr<Stream>>>;

  /// Asks for the owner. The link comes when the daemon turns, at most once.
  std::shared_ptr<Link> ask(const std::vector<std::string>& addresses,
                            const ListenerSettings& settings, Relay& relay) {
    auto link = std::make_shared<Link>();
    relay.connect("10.0.0.7:40112", settings, addresses,
                  [link](Result<std::shared_ptr<Stream>> result) {
                    EXPECT_FALSE(link->has_value()) << "told twice";
                    *link = std::move(result);
                  });
    return link;
  }
  std::shared_ptr<Link> ask(const std::vector<std::string>& addresses,
                            const std::string& job = "digits") {
    return ask(addresses, settings_of(job), relay_);
  }
  std::shared_ptr<Link> ask_both() { return ask({owners_[0].address(), owners_[1].address()}); }
  bool comes(const std::shared_ptr<Link>& link) {
    return daemon_.turn_until([&] { return link->has_value(); });
  }
  Code code_of(const std::shared_ptr<Link>& link) {
    EXPECT_TRUE(comes(link));
    return !*link || **link ? Code::ok : (*link)->error().code;
  }
  /// Sends bytes over a link, and returns what comes back.
  std::string echo(const std::shared_ptr<Link>& link, const std::string& bytes) {
    if (!comes(link) || !**link) return "no link";
    Stream& stream = ****link;
    const asio::const_buffer out = asio::buffer(bytes);
    ErrorCode failed;
    EXPECT_EQ(stream.write_now(std::span(&out, 1), failed), bytes.size());
    std::array<char, 64> in{};
    std::size_t n = 0;
    EXPECT_TRUE(daemon_.turn_until([&] {
      n = stream.read_now(asio::buffer(in), failed);
      return n > 0 || failed != asio::error::would_block;
    }));
    return {in.data(), n};
  }
  static ListenerSettings settings_of(const std::string& job, const std::string& run = "") {
    ListenerSettings settings;
    settings.tcpstore_job = job;
    settings.tcpstore_run = run;
    return settings;
  }

  const std::string nobody_ = own_host() + ":" + std::to_string(three_free_ports());
  static constexpr const char* kOld = "127.0.0.1:29501";  // of a version without relays
  FakeOwner owners_[2] = {FakeOwner("first "), FakeOwner("second ")};
};

TEST_F(RelayTest, TwoClientsAtATimeReachTheOwnersOfTheirListeners) {
  ListenerSettings old = settings_of("letters", "r1");
  old.legacy = tcpstore::LegacyClients::l1;
  const auto first = ask({owners_[0].address()});
  const auto second = ask({owners_[1].address()}, old, relay_);
  EXPECT_EQ(echo(second, "a"), "second a");
  EXPECT_EQ(echo(first, "b"), "first b");
  EXPECT_EQ(places(), kPlaces - 2) << "each link is counted";
  const auto frames = owners_[0].frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(frames[0].key == kKeys[0]);
  EXPECT_EQ(frames[0].peer, "10.0.0.7:40112");
  EXPECT_EQ(frames[0].job, "digits");
  EXPECT_EQ(frames[0].run, "");
  EXPECT_EQ(frames[0].legacy, tcpstore::LegacyClients::detect);
  const auto others = owners_[1].frames();
  ASSERT_EQ(others.size(), 1u);
  EXPECT_TRUE(others[0].key == kKeys[1]);
  EXPECT_EQ(others[0].job, "letters");
  EXPECT_EQ(others[0].run, "r1");
  EXPECT_EQ(others[0].legacy, tcpstore::LegacyClients::l1);
}

TEST_F(RelayTest, TheNextAddressIsTriedIfTheFirstOwnerDoesNotTakeTheClient) {
  const Bytes taken = native::encode_relay_reply({});
  native::ReplyHeader other;
  other.op = Hello::op.code;
  const Bytes another = native::encode_reply(other, ReplyBody(Done{})).head;
  const Bytes moved = native::encode_relay_reply(failure(Code::not_owner, "it has moved"));
  const std::vector<FakeReply> useless = {
      {"", Then::close},                                 // closes
      {taken.substr(0, taken.size() - 1), Then::close},  // in the middle of the reply
      {moved},                                           // refuses
      {another},                                         // lies: of another type
      {std::string(64, '\xff')},                         // of another size
      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nServer: x\r\n\r\nx"}};
  for (const FakeReply& reply : useless) {
    owners_[0].say({reply});
    const std::size_t before = owners_[1].frames().size();
    EXPECT_EQ(echo(ask_both(), "x"), "second x") << reply.bytes;
    EXPECT_EQ(owners_[1].frames().size(), before + 1);
    EXPECT_TRUE(owners_[1].frames().back().key == kKeys[1]) << "and not that of the first";
  }
  for (const std::string& address : {nobody_, std::string("no-port"), std::string("127.0.0.1:x"),
                                     std::string(kOld), std::string("127.0.0.1:9")}) {
    EXPECT_EQ(echo(ask({address, owners_[1].address()}), "x"), "second x") << address;
  }
  EXPECT_EQ(echo(ask_both(), "y"), "first y") << "it serves again";
}

TEST_F(RelayTest, OwnersThatRefuseAgainAndAgainLeaveNothingAndThenServe) {
  const FakeReply refusal{native::encode_relay_reply(failure(Code::not_owner, "not mine"))};
  owners_[0].say(std::deque<FakeReply>(33, refusal));
  owners_[1].say(std::deque<FakeReply>(33, refusal));
  for (int round = 0; round < 33; ++round) {
    ASSERT_EQ(code_of(ask_both()), Code::unavailable);
    ASSERT_EQ(places(), kPlaces);
  }
  EXPECT_EQ(echo(ask_both(), "x"), "first x");
  EXPECT_EQ(code_of(ask({})), Code::unavailable) << "there is no address";
}

TEST_F(RelayTest, AnOwnerWithoutRoomIsTheEndOfTheSearch) {
  owners_[0].say({{native::encode_relay_reply(failure(Code::quota_exceeded, "no room"))}});
  const auto link = ask_both();
  EXPECT_EQ(code_of(link), Code::quota_exceeded);
  EXPECT_EQ((*link)->error().detail, "no room");
  EXPECT_TRUE(owners_[1].frames().empty());
}

TEST_F(RelayTest, ARelayWithoutRoomConnectsToNobody) {
  std::vector<Ticket> others = crowd(1);
  const auto link = ask({owners_[0].address()});
  EXPECT_EQ(echo(link, "x"), "first x");
  EXPECT_EQ(code_of(ask({owners_[1].address()})), Code::quota_exceeded);
  EXPECT_EQ(owners_[1].server().connections(), 0);
  link->reset();  // the client has ended
  EXPECT_EQ(echo(ask({owners_[1].address()}), "x"), "second x");
}

TEST_F(RelayTest, ASilentOwnerIsGivenUpAndItsLateReplyIsNoLink) {
  Relay impatient = make_relay(std::chrono::milliseconds(150));
  const Bytes taken = native::encode_relay_reply({});
  owners_[0].say({{"", Then::go_on, taken}, {"", Then::go_on, taken}});
  const auto first = ask({owners_[0].address()}, settings_of("digits"), impatient);
  const auto second =
      ask({owners_[0].address(), owners_[1].address()}, settings_of("digits"), impatient);
  EXPECT_EQ(code_of(first), Code::unavailable);
  EXPECT_TRUE(daemon_.turn_until([&] { return owners_[1].server().connections() == 1; }))
      << "the next one is asked";
  EXPECT_TRUE(comes(second));
  owners_[0].server().release();
  daemon_.turn_a_while();
  ASSERT_TRUE(first->has_value());
  EXPECT_FALSE(**first);
}

TEST_F(RelayTest, AnOwnerThatRepliesLateHoldsNobodyElseUp) {
  const Bytes taken = native::encode_relay_reply({});
  owners_[0].say({{"", Then::go_on, taken}});
  const auto late = ask({owners_[0].address()});
  ASSERT_TRUE(daemon_.turn_until([&] { return owners_[0].server().held() == 1; }));
  EXPECT_EQ(echo(ask({owners_[1].address()}), "x"), "second x");
  EXPECT_EQ(echo(ask({owners_[0].address()}), "y"), "first y");
  EXPECT_FALSE(late->has_value());
  EXPECT_EQ(places(), kPlaces - 1) << "only the late one is there";
  owners_[0].server().release();
  EXPECT_EQ(echo(late, "z"), "first z");
}

TEST_F(RelayTest, AReplyInPiecesIsWhole) {
  const Bytes refusal =
      native::encode_relay_reply(failure(Code::quota_exceeded, "{}", std::string(700, 'x')));
  ASSERT_GT(refusal.size(), 600u) << "more than is read at once";
  owners_[0].say({{refusal}});
  const auto link = ask_both();
  EXPECT_EQ(code_of(link), Code::quota_exceeded);
  EXPECT_EQ((*link)->error().detail, std::string(700, 'x'));
}

}  // namespace
}  // namespace c10dd::daemon
