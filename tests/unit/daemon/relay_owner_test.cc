// SPDX-License-Identifier: Apache-2.0
// The owner's side of a relay: whom it takes, over relays that lie, and over a directory that
// replies late, in another order, or when the client has gone.
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/native_wire.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/relay_world.h"
#include "tests/unit/protocol/tcpstore_traces.h"

namespace c10dd::daemon {
namespace {

/// Runs whose owner is found when the test says so.
class LateRuns final : public TcpStoreRuns {
 public:
  void locate(std::function<void(Result<Owner>)> then) override {
    waiting.push_back(std::move(then));
  }
  void bind(const Client&, const tcpstore::MessageHead&,
            std::function<void(Result<std::string>)> then) override {
    then("run-1");
  }
  void opened(std::uint64_t, std::function<void(Failure)>) override {}
  bool concerns(const tcpstore::MessageHead&) const override { return false; }
  void ask(std::uint64_t, const tcpstore::MessageHead&, bool,
           std::function<void(Result<void>)> then) override {
    then({});
  }
  void ended(std::uint64_t) override {}

  std::deque<std::function<void(Result<Owner>)>> waiting;
};

class RelayOwnerTest : public RelayWorld {
 protected:
  using Owner = TcpStoreRuns::Owner;
  /// A client whose connection another daemon passes on.
  struct PassedOn {
    std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();
    Bytes in;

    void take() { in += wire->take(); }
    /// Returns the owner's reply, if it has come.
    std::optional<Result<void>> reply() {
      take();
      const auto cut = native::cut_relay_reply(in);
      if (!cut || !cut->has_value()) return std::nullopt;
      return (*cut)->taken;
    }
    Bytes after_reply() {
      take();
      const auto cut = native::cut_relay_reply(in);
      return cut && cut->has_value() ? in.substr((*cut)->size) : "";
    }
  };

  void SetUp() override {
    RelayWorld::SetUp();
    join({row(2, {"10.0.0.5:1"}, {2, 22})});
  }

  std::shared_ptr<TcpStoreListener> listener(const ListenerSettings& settings) override {
    made_.push_back(settings);
    return std::make_shared<TcpStoreListener>(daemon_.context, settings, runs_);
  }

  static native::RelayFrame frame(const std::string& peer = "10.0.0.7:40112") {
    native::RelayFrame frame;
    frame.key = kOwnKey;
    frame.peer = peer;
    frame.job = "digits";
    return frame;
  }
  /// The first bytes of a client with this process number.
  static Bytes ping(const char* number) {
    return traces::bytes_of(std::string("00 CEF7853C 0D ") + number);
  }

  /// Passes a client on, with what it has sent already.
  PassedOn pass_on(const Bytes& head) {
    PassedOn client;
    auto stream = std::make_shared<MemoryStream>(daemon_.loop, client.wire, false,
                                                 admission_.enter(other_daemon_));
    stream->put_head(head);
    relay_.take(std::move(stream));
    daemon_.turn();
    return client;
  }
  PassedOn pass_on(const native::RelayFrame& frame, const char* number = "16640000") {
    return pass_on(native::encode_relay(frame) + ping(number));
  }
  /// Replies to the lookup that has waited longest, or to a later one.
  void locate(const Result<Owner>& owner, std::size_t at = 0) {
    ASSERT_LT(at, runs_->waiting.size());
    const auto then = std::move(runs_->waiting[at]);
    runs_->waiting.erase(runs_->waiting.begin() + static_cast<std::ptrdiff_t>(at));
    then(owner);
    daemon_.turn();
  }
  /// Passes a client on and takes it.
  PassedOn taken(const native::RelayFrame& frame) {
    PassedOn client = pass_on(frame);
    locate(Owner{});
    EXPECT_TRUE(serves(client, "16640000"));
    return client;
  }
  bool serves(PassedOn& client, const char* number) {
    const Bytes expected = traces::bytes_of(number);
    return daemon_.turn_until(
               [&] { return client.wire->session_ended() || client.after_reply() == expected; }) &&
           client.reply().value().has_value() && client.after_reply() == expected;
  }
  void leave(const PassedOn& client) {
    client.wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return client.wire->closed(); }));
  }
  /// Returns the code of the refusal, after which the connection ends.
  Code refusal(PassedOn client) {
    EXPECT_TRUE(daemon_.turn_until([&] { return client.wire->session_ended(); }));
    const auto reply = client.reply();
    EXPECT_EQ(client.after_reply(), "");
    leave(client);
    detail_ = reply && !*reply ? reply->error().detail : "";
    return !reply ? Code::internal : *reply ? Code::ok : reply->error().code;
  }
  Code refusal(const native::RelayFrame& frame) {
    const PassedOn client = pass_on(frame);
    EXPECT_TRUE(runs_->waiting.empty()) << "no lookup for a client that is not admitted";
    return refusal(client);
  }

  const asio::ip::address other_daemon_ = asio::ip::make_address("10.0.0.5");
  std::shared_ptr<LateRuns> runs_ = std::make_shared<LateRuns>();
  std::vector<ListenerSettings> made_;
  std::string detail_;
};

TEST_F(RelayOwnerTest, ServesAClientFromItsFirstByte) {
  daemon_.options.tcpstore_job = "main";
  native::RelayFrame asked = frame();
  asked.run = "r1";
  asked.legacy = tcpstore::LegacyClients::l1;
  PassedOn client = pass_on(asked);
  EXPECT_EQ(client.wire->take(), "") << "the owner is not known yet";
  locate(Owner{});
  EXPECT_TRUE(serves(client, "16640000"));
  ASSERT_EQ(made_.size(), 1u);
  EXPECT_EQ(made_[0].tcpstore_job, "digits");
  EXPECT_EQ(made_[0].tcpstore_run, "r1");
  EXPECT_EQ(made_[0].legacy, tcpstore::LegacyClients::l1);
  EXPECT_EQ(daemon_.open("tcpstore"), 1);
  EXPECT_EQ(places(), kPlaces - 1);
  leave(client);
  EXPECT_EQ(daemon_.closed("tcpstore", "peer"), 1);
}

TEST_F(RelayOwnerTest, CountsAClientAsOneOfItsOwnAddress) {
  const PassedOn first = taken(frame());
  const PassedOn second = taken(frame("[::ffff:10.0.0.7]:40113"));
  EXPECT_EQ(refusal(frame("10.0.0.7:40114")), Code::quota_exceeded);
  EXPECT_NE(detail_.find("10.0.0.7"), std::string::npos) << detail_;
  EXPECT_EQ(places(), kPlaces - 2) << "the daemon that passes them on has none";
  const PassedOn other = taken(frame("10.0.0.8:1"));
  leave(first);
  leave(taken(frame("10.0.0.7:40114")));
  leave(second);
  leave(other);
}

TEST_F(RelayOwnerTest, LeavesPlacesToClientsOfOtherProtocols) {
  const std::vector<Ticket> others = crowd(1);
  const PassedOn last = taken(frame());
  EXPECT_EQ(refusal(frame("10.0.0.8:1")), Code::quota_exceeded);
  EXPECT_NE(detail_.find("TCPStore connections"), std::string::npos) << detail_;
  leave(last);
  leave(taken(frame("10.0.0.8:1")));
  std::vector<Ticket> all;
  while (places() > 0) all.push_back(*admission_.enter_own());
  EXPECT_EQ(refusal(frame("10.0.0.8:1")), Code::quota_exceeded);
}

TEST_F(RelayOwnerTest, RefusesAFrameThatNoDaemonOfItsFleetSends) {
  native::RelayFrame wrong = frame();
  wrong.key = {2, 22};  // of another daemon
  EXPECT_EQ(refusal(wrong), Code::permission_denied);
  wrong.key = {};
  EXPECT_EQ(refusal(wrong), Code::permission_denied);
  for (const char* peer : {"10.0.0.7", "host:1", "10.0.0.7:70000", "10.0.0.7:x", ":1"}) {
    EXPECT_EQ(refusal(frame(peer)), Code::malformed) << peer;
  }
  wrong = frame();
  wrong.job.clear();
  EXPECT_EQ(refusal(wrong), Code::malformed);
  EXPECT_TRUE(made_.empty());
  EXPECT_EQ(daemon_.closed("unknown", "refused"), 8);
  EXPECT_EQ(daemon_.count(metric::kProtocolErrors, "code=\"malformed\",protocol=\"native\""), 6);
  leave(taken(frame("[::1]:7")));
  join({}, {});  // this daemon has no key
  wrong = frame();
  wrong.key = {};
  EXPECT_EQ(refusal(wrong), Code::permission_denied);
}

TEST_F(RelayOwnerTest, ItDoesNotPassAClientOnAgain) {
  PassedOn client = pass_on(frame());
  locate(Owner{{"10.0.0.5:1", "10.0.0.5:2"}});
  EXPECT_EQ(refusal(std::move(client)), Code::not_owner);
  EXPECT_NE(detail_.find("job \"digits\" is served by the daemon at 10.0.0.5:1"), std::string::npos)
      << detail_;
  client = pass_on(frame());
  locate(failure(Code::quota_exceeded, "too many jobs"));
  EXPECT_EQ(refusal(std::move(client)), Code::quota_exceeded);
  EXPECT_EQ(detail_, "too many jobs");
}

TEST_F(RelayOwnerTest, TwoThatWaitAreRepliedToInAnyOrder) {
  PassedOn first = pass_on(frame(), "11111111");
  PassedOn second = pass_on(frame("10.0.0.8:1"), "22222222");
  PassedOn third = pass_on(frame("10.0.0.9:1"), "33333333");
  locate(Owner{}, 2);
  locate(failure(Code::unavailable, "the engine is lost"), 1);
  EXPECT_EQ(refusal(second), Code::unavailable);
  EXPECT_EQ(first.wire->take(), "");
  locate(Owner{});
  EXPECT_TRUE(serves(first, "11111111"));
  EXPECT_TRUE(serves(third, "33333333"));
  leave(first);
  leave(third);
}

TEST_F(RelayOwnerTest, AReplyToAClientThatHasGoneServesNobody) {
  const PassedOn gone = pass_on(frame());
  const PassedOn also_gone = pass_on(frame());
  gone.wire->break_off();
  also_gone.wire->break_off();
  locate(Owner{});
  locate(failure(Code::unavailable, "the engine is lost"));
  EXPECT_TRUE(daemon_.turn_until([&] { return gone.wire->closed() && also_gone.wire->closed(); }));
  EXPECT_EQ(daemon_.open("tcpstore"), 0);
  leave(taken(frame()));
}

TEST_F(RelayOwnerTest, ConnectionsWithTheSameSettingsShareAListener) {
  std::vector<native::RelayFrame> frames(4, frame());
  frames[1].job = "letters";
  frames[2].run = "r1";
  frames[3].legacy = tcpstore::LegacyClients::l0;
  std::vector<PassedOn> clients;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    for (const char* port : {":1", ":2"}) {
      frames[i].peer = "10.0.1." + std::to_string(i) + port;
      clients.push_back(taken(frames[i]));
      EXPECT_EQ(made_.size(), i + 1);
    }
  }
  for (const PassedOn& client : clients) leave(client);
  leave(taken(frame()));
  EXPECT_EQ(made_.size(), 5u) << "the listener has gone with its last connection";
}

TEST_F(RelayOwnerTest, OnlyAWholeFrameOfARelayIsOne) {
  const Bytes whole = native::encode_relay(frame());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_FALSE(Relay::is_asked_for(std::string_view(whole).substr(0, n))) << n;
  }
  EXPECT_TRUE(Relay::is_asked_for(whole));
  EXPECT_TRUE(Relay::is_asked_for(whole + "more"));
  EXPECT_FALSE(Relay::is_asked_for(whole.substr(1)));
  Bytes hello(native::kMagic);
  native::encode_request(hello, {}, Hello{});
  EXPECT_FALSE(Relay::is_asked_for(hello));
  Bytes too_large = whole;
  too_large[native::kMagic.size() + 3] = '\x7f';  // of the length
  EXPECT_FALSE(Relay::is_asked_for(too_large));
}

}  // namespace
}  // namespace c10dd::daemon
