// SPDX-License-Identifier: Apache-2.0
// Connections of PyTorch's TCPStore in the daemon: the bytes of real clients, what happens before
// the first store request, waits between connections, ends, long replies, bounds, silent
// connections.
#include "daemon/net/tcpstore_session.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/core/job/job.h"
#include "daemon/net/answer_watch.h"
#include "protocol/limits.h"
#include "tests/unit/daemon/tcpstore_peer.h"

namespace c10dd::daemon {
namespace {

using tcpstore::Query;

class TcpStoreSessionTest : public testing::Test {
 protected:
  TcpStorePeer peer() { return {daemon_, listener_}; }

  double requests(const std::string& op) {
    daemon_.shard().reports();  // passes the counts on
    return daemon_.count(metric::kRequests, "op=\"" + op + "\",protocol=\"tcpstore\"");
  }

  void expect_trace(std::string_view trace, std::size_t split) {
    SmallDaemon daemon;
    TcpStorePeer client(daemon, tcpstore_listener(daemon.context));
    bool connected = false;
    for (const traces::Line& line : traces::lines_of(trace)) {
      if (!line.from_client) {
        ASSERT_EQ(client.next(line.bytes.size()), line.bytes);
        continue;
      }
      for (std::size_t at = 0; at < line.bytes.size(); at += split) {
        const Bytes piece = line.bytes.substr(at, split);
        std::exchange(connected, true) ? client.say(piece) : client.connect(piece);
        daemon.turn();
      }
    }
    client.expect_silence();
  }

  SmallDaemon daemon_;
  std::shared_ptr<TcpStoreListener> listener_ = tcpstore_listener(daemon_.context);
};

TEST_F(TcpStoreSessionTest, SendsWhatRealServersSendInAnySplit) {
  for (const std::size_t split : {1, 3, 8, 1000}) {
    for (const auto trace : {traces::kV4, traces::kL0, traces::kL0Callbacks, traces::kL1}) {
      expect_trace(trace, split);
    }
  }
}

TEST_F(TcpStoreSessionTest, ServesAPingWithoutASession) {
  TcpStorePeer client = peer();
  client.connect(traces::bytes_of("00"));
  client.expect_silence();
  client.send("CEF7853C 0D 1664");
  client.expect_silence();
  client.send("0000 0D 01000000");
  client.expect("16640000 01000000");
  EXPECT_EQ(daemon_.open("tcpstore"), 1);
  EXPECT_TRUE(daemon_.shard().host().jobs().empty());
  EXPECT_TRUE(client.wire->patient());
  client.leave();
  EXPECT_EQ(daemon_.open("tcpstore"), 0);
  EXPECT_EQ(daemon_.closed("tcpstore", "peer"), 1);
}

TEST_F(TcpStoreSessionTest, OpensASessionThatEndsWithTheConnection) {
  TcpStorePeer client = peer();
  client.connect_v();
  client.say(TcpStorePeer::message(Query::add, "init/", {}, 1));
  client.expect("0100000000000000");
  const auto& jobs = daemon_.shard().host().jobs();
  ASSERT_EQ(jobs.size(), 1u);
  const core::JobRef job = jobs.begin()->second;
  EXPECT_EQ(job->name, "torch");
  EXPECT_EQ(job->run, "run-1");
  EXPECT_EQ(job->job->stats().sessions_known, 1u);
  EXPECT_EQ(requests("add"), 1);
  client.leave();
  EXPECT_TRUE(daemon_.turn_until([&] { return job->job->stats().sessions_known == 0; }));
}

TEST_F(TcpStoreSessionTest, TellsTheJobWhetherTheHostOfItsPeerAnswers) {
  AnswerWatch& watch = AnswerWatch::of(daemon_.loop);
  watch.look_every(std::chrono::milliseconds(1));
  TcpStorePeer near = peer();
  TcpStorePeer far = peer();
  near.connect_v();
  far.connect_v(false);
  EXPECT_EQ(watch.watched(), 0u) << "there is no session yet";
  for (TcpStorePeer* const client : {&near, &far}) {
    client->say(TcpStorePeer::message(Query::add, "init/", {}, 1));
    client->next(8);
  }
  EXPECT_EQ(watch.watched(), 1u) << "a peer of the same machine always answers";
  const core::JobRef job = daemon_.shard().host().jobs().begin()->second;
  const auto is_blamed = [&] {
    return job->job->diagnosis().sentence.find(
               "192.0.2.1 (pid 25622), whose host does not answer") != std::string::npos;
  };
  far.wire->answer(false);
  EXPECT_TRUE(daemon_.turn_until(is_blamed)) << job->job->diagnosis().sentence;
  watch.look_every(std::chrono::hours(1));
  const unsigned looks = far.wire->looks();
  EXPECT_TRUE(daemon_.turn_until([&] { return far.wire->looks() > looks; }));  // the last one
  far.say(TcpStorePeer::message(Query::add, "init/", {}, 0));
  far.next(8);
  EXPECT_TRUE(daemon_.turn_until([&] { return !is_blamed(); })) << "it has sent a request";
  far.leave();
  EXPECT_EQ(watch.watched(), 0u);
}

TEST_F(TcpStoreSessionTest, WakesTheWaitsOfOtherConnections) {
  TcpStorePeer waiter = peer();
  TcpStorePeer setter = peer();
  waiter.connect_v();
  setter.connect_v();
  waiter.say(TcpStorePeer::list(Query::wait, {"/a", "/b"}));
  waiter.expect_silence();
  setter.say(TcpStorePeer::message(Query::set, "/a", "1"));
  waiter.expect_silence();
  setter.say(TcpStorePeer::message(Query::set, "/b", "2"));
  waiter.expect("00");
  waiter.say(TcpStorePeer::list(Query::multi_get, {"/a", "/c", "/b"}));
  waiter.expect("0100000000000000 \"1\" 0000000000000000 0100000000000000 \"2\"");
}

TEST_F(TcpStoreSessionTest, ReleasesABarrierWhenAllHaveCome) {
  TcpStorePeer first = peer();
  TcpStorePeer second = peer();
  first.connect_v();
  second.connect_v();
  first.say(TcpStorePeer::message(Query::barrier, "/b", {}, 2));
  first.expect_silence();
  second.say(TcpStorePeer::message(Query::barrier, "/b", {}, 2));
  first.expect("00");
  second.expect("00");
}

TEST_F(TcpStoreSessionTest, ServesOtherRequestsWhileAWaitIsBlocked) {
  TcpStorePeer client = peer();
  client.connect_v();
  client.say(TcpStorePeer::list(Query::wait, {"/a"}) + TcpStorePeer::message(Query::count_keys));
  client.expect("0000000000000000");
  client.say(TcpStorePeer::message(Query::cancel_wait));
  client.expect("01");
}

TEST_F(TcpStoreSessionTest, KeepsAnItemForTheClientThatWasWoken) {
  TcpStorePeer waiter = peer();
  TcpStorePeer other = peer();
  waiter.connect_v();
  other.connect_v();
  waiter.say(TcpStorePeer::list(Query::wait, {"/q"}));
  waiter.expect_silence();
  other.say(TcpStorePeer::message(Query::queue_push, "/q", "i"));
  waiter.expect("00");
  other.say(TcpStorePeer::message(Query::queue_pop, "/q"));
  other.expect("0000000000000000");
  waiter.say(TcpStorePeer::message(Query::queue_pop, "/q"));
  waiter.expect("0100000000000000 0100000000000000 \"i\"");
}

TEST_F(TcpStoreSessionTest, TakesAmbiguousBytesAsARemoveAfterAWhile) {
  TcpStorePeer client = peer();
  client.connect(traces::bytes_of("00 0200000000000000 \"/k\" 0100000000000000 \"v\""));
  client.send("08 0200000000000000 \"/k\"");
  client.expect("0100000000000000");
  client.send("06");
  client.expect("0000000000000000");
}

TEST_F(TcpStoreSessionTest, EndsWithAFailureThatHasNoForm) {
  TcpStorePeer client = peer();
  client.connect_v();
  client.say(TcpStorePeer::message(Query::set, "/k", "abc"));
  client.say(TcpStorePeer::message(Query::count_keys));
  client.say(TcpStorePeer::message(Query::add, "/k", {}, 1));
  client.expect("0100000000000000");
  client.expect_end();
  EXPECT_EQ(daemon_.closed("tcpstore", "refused"), 1);
  EXPECT_EQ(
      daemon_.count(metric::kProtocolErrors, "code=\"invalid_argument\",protocol=\"tcpstore\""), 1);
}

TEST_F(TcpStoreSessionTest, EndsWithBytesThatAreNoMessage) {
  const Bytes pinged = traces::bytes_of("00 CEF7853C");
  const Bytes counted = pinged + TcpStorePeer::message(Query::count_keys);
  for (const char* bad : {"FF", "13", "00 CFF7853C", "01 0120000000000000", "03 0000000000000080",
                          "01 0100000000000000 \"k\" 0100800000000000", "06 0100020000000000"}) {
    for (const Bytes& before : {pinged, counted}) {
      TcpStorePeer client = peer();
      client.connect(before);
      if (before == counted) client.expect("0000000000000000");
      client.send(bad);
      client.expect_end();
    }
  }
  for (const char* bad : {"00 CFF7853C 00000000", "0B FFFFFFFFFFFFFFFF", "04 0100020000000000"}) {
    TcpStorePeer client = peer();
    client.connect(traces::bytes_of(bad));
    client.expect_end();
  }
  EXPECT_EQ(daemon_.closed("tcpstore", "refused"), 17);
  EXPECT_EQ(daemon_.open("tcpstore"), 0);
}

TEST_F(TcpStoreSessionTest, AppliesNothingOfAMessageThatIsCutOff) {
  TcpStorePeer client = peer();
  client.connect_v();
  const Bytes whole = TcpStorePeer::list(Query::multi_set, {"/a", "/b"}, {"1", "2"});
  client.say(whole.substr(0, whole.size() - 1));
  daemon_.turn_a_while();
  client.leave();
  TcpStorePeer other = peer();
  other.connect_v();
  other.say(TcpStorePeer::message(Query::count_keys));
  other.expect("0000000000000000");
}

TEST_F(TcpStoreSessionTest, SendsALongReplyAsTheClientReads) {
  TcpStorePeer client = peer();
  client.connect_v();
  const Bytes value(limits::kValueBytes, 'x');
  client.say(TcpStorePeer::message(Query::set, "/k", value));
  client.wire->give_room(0);
  client.say(TcpStorePeer::list(Query::multi_get, std::vector<std::string_view>(20, "/k")));
  client.say(TcpStorePeer::message(Query::count_keys));
  daemon_.turn_a_while();
  EXPECT_LE(daemon_.budget.held(), 40u << 20) << "not all pages at once";
  client.wire->give_room(std::size_t{1} << 40);
  const Bytes all = client.next(20 * (8 + value.size()) + 8);
  EXPECT_EQ(all.size(), 20 * (8 + value.size()) + 8);
  EXPECT_EQ(all.substr(all.size() - 8), traces::bytes_of("0100000000000000"));
}

TEST_F(TcpStoreSessionTest, GivesBackTheMemoryOfAnUnfinishedMessage) {
  TcpStorePeer client = peer();
  client.connect_v();
  const Bytes value(limits::kValueBytes, 'x');
  const Bytes whole =
      TcpStorePeer::list(Query::multi_set, {"/a", "/b", "/c"}, {value, value, value});
  client.say(whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.budget.held() >= whole.size(); }));
  EXPECT_LE(daemon_.budget.held(), limits::kTcpStoreMessageBytes);
  client.say(whole.substr(whole.size() - 1));
  client.say(TcpStorePeer::message(Query::count_keys));
  client.expect("0300000000000000");
  EXPECT_EQ(daemon_.budget.held(), 0u);
}

TEST_F(TcpStoreSessionTest, ClosesUnfinishedMessagesThatHaveNoRoom) {
  const Bytes value(limits::kValueBytes, 'x');
  const std::vector<std::string_view> keys(7, "/k");
  const std::vector<std::string_view> values(7, value);
  const Bytes whole = TcpStorePeer::list(Query::multi_set, keys, values);
  std::vector<std::unique_ptr<TcpStorePeer>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TcpStorePeer>(daemon_, listener_));
    clients.back()->connect_v();
    clients.back()->say(whole.substr(0, whole.size() - 1));
  }
  const auto is_closed = [](const auto& client) { return client->wire->closed(); };
  EXPECT_TRUE(daemon_.turn_until([&] { return std::ranges::count_if(clients, is_closed) >= 2; }));
  EXPECT_GE(daemon_.closed("tcpstore", "quota_exceeded"), 2);
  EXPECT_LE(daemon_.budget.held(), 64U * 1024 * 1024);
  for (const auto& client : clients) client->wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.open("tcpstore") == 0; }));
  EXPECT_EQ(daemon_.budget.held(), 0u);
}

TEST_F(TcpStoreSessionTest, MovesToTheShardOfItsRun) {
  SmallDaemon two(4);
  const auto listener = tcpstore_listener(two.context);
  for (int i = 0; i < 3; ++i) {
    TcpStorePeer client(two, listener);
    client.connect_v();
    client.say(TcpStorePeer::message(Query::add, "init/", {}, 1));
    EXPECT_EQ(client.next(8)[0], i + 1);
    client.say(TcpStorePeer::list(Query::wait, {"/never"}) +
               TcpStorePeer::message(Query::count_keys));
    client.expect("0100000000000000");
    client.leave();
  }
}

TEST_F(TcpStoreSessionTest, KeepsASilentConnectionBesideAnOldClient) {
  const auto silent = [&](const std::shared_ptr<MemoryWire>& wire) {
    return tcpstore_protocol(listener_).keep_silent(
        std::make_shared<MemoryStream>(daemon_.loop, wire));
  };
  const auto first = std::make_shared<MemoryWire>();
  EXPECT_FALSE(silent(first)) << "there is no old client";
  TcpStorePeer client = peer();
  client.connect(traces::bytes_of("03 0500000000000000 \"init/\" 0100000000000000"));
  client.expect("0100000000000000");
  const auto kept = std::make_shared<MemoryWire>();
  EXPECT_TRUE(silent(kept));
  EXPECT_FALSE(silent(std::make_shared<MemoryWire>())) << "one each";
  daemon_.turn_a_while();
  EXPECT_FALSE(kept->closed());
  EXPECT_EQ(daemon_.open("tcpstore"), 2);
  client.leave();
  EXPECT_TRUE(daemon_.turn_until([&] { return kept->closed(); }));
  EXPECT_EQ(daemon_.open("tcpstore"), 0);
  EXPECT_FALSE(silent(std::make_shared<MemoryWire>()));
}

TEST_F(TcpStoreSessionTest, ServesASilentConnectionThatSpeaks) {
  TcpStorePeer client = peer();
  client.connect(traces::bytes_of("06"));
  client.expect("0000000000000000");
  const auto wire = std::make_shared<MemoryWire>();
  ASSERT_TRUE(
      tcpstore_protocol(listener_).keep_silent(std::make_shared<MemoryStream>(daemon_.loop, wire)));
  daemon_.turn_a_while();
  wire->say(traces::bytes_of("07 0200000000000000 \"/k\""));
  EXPECT_TRUE(daemon_.turn_until([&] { return wire->written() == "\x03"; }));
  EXPECT_EQ(listener_->silent.kept(), 0u);
  wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.open("tcpstore") == 1; }));
}

TEST_F(TcpStoreSessionTest, AsksItsRunsAboutMessages) {
  struct Runs final : TcpStoreRuns {
    void locate(std::function<void(Result<Owner>)> then) override { then(Owner{}); }
    void bind(const Client& client, const tcpstore::MessageHead& first,
              std::function<void(Result<std::string>)> then) override {
      log.push_back("bind " + std::string(first.key) + " " + client.address + " " +
                    std::to_string(client.pid));
      if (first.key == "/stranger") return then(failure(Code::permission_denied, "no"));
      then(std::string("run"));
    }
    void opened(std::uint64_t, std::function<void(Failure)> how) override {
      log.emplace_back("opened");
      close = std::move(how);
    }
    bool concerns(const tcpstore::MessageHead& message) const override {
      return message.key.starts_with("/rank");
    }
    void ask(std::uint64_t, const tcpstore::MessageHead& message, bool others_wait,
             std::function<void(Result<void>)> then) override {
      log.push_back("ask " + std::string(message.key) + (others_wait ? " for others" : ""));
      asked = std::move(then);
    }
    void ended(std::uint64_t) override { log.emplace_back("ended"); }

    std::vector<std::string> log;
    std::function<void(Failure)> close;
    std::function<void(Result<void>)> asked;
  };
  auto owned = std::make_unique<Runs>();
  Runs& runs = *owned;
  listener_ = tcpstore_listener(daemon_.context, std::move(owned));
  const auto reply = [&](Result<void> may) {
    ASSERT_TRUE(daemon_.turn_until([&] { return runs.asked != nullptr; }));
    std::exchange(runs.asked, nullptr)(std::move(may));
  };
  TcpStorePeer client = peer();
  client.connect_v();
  client.say(TcpStorePeer::message(Query::set, "/rank0", "x"));
  client.say(TcpStorePeer::message(Query::count_keys));
  client.expect_silence();
  reply({});
  client.expect("0100000000000000");
  client.say(TcpStorePeer::message(Query::set, "/rank0", "y"));
  reply(failure(Code::rank_taken, "taken"));
  client.expect_end();
  TcpStorePeer second = peer();
  second.connect_v();
  second.say(TcpStorePeer::message(Query::get, "/rank0"));
  reply({});
  second.expect("0100000000000000 \"x\"");
  runs.close(failure(Code::aborted, "the run has ended"));
  second.expect_end();
  TcpStorePeer waits = peer();
  waits.connect_v();
  waits.say(TcpStorePeer::list(Query::wait, {"/absent"}));
  waits.expect_silence();
  TcpStorePeer third = peer();
  third.connect_v();
  third.say(TcpStorePeer::message(Query::set, "/rank1", "z"));
  reply({});
  TcpStorePeer stranger = peer();
  stranger.connect_v();
  stranger.say(TcpStorePeer::message(Query::get, "/stranger"));
  stranger.expect_end();
  const std::vector<std::string> expected = {"bind /rank0 127.0.0.1 25622",
                                             "opened",
                                             "ask /rank0",
                                             "ask /rank0",
                                             "ended",
                                             "bind /rank0 127.0.0.1 25622",
                                             "opened",
                                             "ask /rank0",
                                             "ended",
                                             "bind /absent 127.0.0.1 25622",
                                             "opened",
                                             "bind /rank1 127.0.0.1 25622",
                                             "opened",
                                             "ask /rank1 for others",
                                             "bind /stranger 127.0.0.1 25622"};
  EXPECT_EQ(runs.log, expected);
}

}  // namespace
}  // namespace c10dd::daemon
