// SPDX-License-Identifier: Apache-2.0
// The host of the engine: a lost engine is opened again, and clients can go on.
#include "daemon/shard/engine_host.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tests/unit/daemon/faulty_engine.h"
#include "tests/unit/daemon/native_peer.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

class EngineHostTest : public testing::Test {
 protected:
  bool engine_is_up() const { return daemon_.count(metric::kEngineUp, "engine=\"memory\"") == 1; }
  bool opened_again() {
    return daemon_.turn_until([&] { return daemon_.host.not_ready().empty(); });
  }
  bool lost() {
    return daemon_.turn_until([&] { return !daemon_.host.not_ready().empty(); });
  }

  /// The engine cannot be opened again, because its directory would be inside a file.
  void name_no_directory() {
    std::ofstream(home_.path() + "/no-directory") << "text";
    daemon_.options.engine = "rocksdb:" + home_.path() + "/no-directory/state";
  }

  TemporaryDirectory home_;
  std::shared_ptr<EngineFaults> faults_ = std::make_shared<EngineFaults>();
  SmallDaemon daemon_{2, {}, std::make_unique<FaultyEngine>(faults_)};
};

TEST_F(EngineHostTest, OpensTheEngineAgainAfterAnUnknownOutcome) {
  daemon_.options.engine = "memory:";
  NativePeer peer(daemon_);
  peer.connect();
  ASSERT_TRUE(peer.hello(1));
  EXPECT_TRUE(engine_is_up());
  faults_->unknown = true;
  peer.send(Set{"k", "v"}, 0, 2);
  EXPECT_EQ(peer.next().code(), Code::unavailable) << "the session ends";
  EXPECT_NE(daemon_.host.not_ready().find("faulty"), std::string::npos);
  EXPECT_FALSE(engine_is_up());
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.engine_failures == 1; }));
  ASSERT_TRUE(opened_again());
  EXPECT_TRUE(engine_is_up());
  NativePeer again(daemon_);
  again.connect();
  ASSERT_TRUE(again.hello(1));
  EXPECT_EQ(again.ask(Set{"k", "v"}, 0, 2).code(), Code::ok);
}

TEST_F(EngineHostTest, RefusesHellosWhileTheEngineIsLost) {
  name_no_directory();
  daemon_.host.report_lost(1, "a disk");
  ASSERT_TRUE(lost());
  NativePeer peer(daemon_);
  peer.connect();
  peer.send(NativePeer::hello_of(1));
  const NativeReply reply = peer.next();
  EXPECT_EQ(reply.code(), Code::unavailable);
  EXPECT_NE(reply.detail().find("a disk"), std::string::npos) << reply.detail();
  std::optional<Result<void>> done;
  daemon_.host.checkpoint("/copy", [&](Result<void> result) { done = result; });
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->error().code, Code::unavailable);
  EXPECT_EQ(daemon_.host.room_to_tidy(), 0u);
}

TEST_F(EngineHostTest, TriesAgainUntilTheEngineOpens) {
  name_no_directory();
  daemon_.host.report_lost(1, "a disk");
  ASSERT_TRUE(daemon_.turn_until([&] { return daemon_.engine_failures >= 3; }));
  EXPECT_NE(daemon_.host.not_ready().find("no-directory"), std::string::npos)
      << daemon_.host.not_ready();
  daemon_.options.engine = "memory:";
  EXPECT_TRUE(opened_again());
}

TEST_F(EngineHostTest, IgnoresAReportOfAnOlderEngine) {
  daemon_.host.report_lost(7, "another engine");
  daemon_.turn_a_while();
  EXPECT_EQ(daemon_.host.not_ready(), "");
}

TEST_F(EngineHostTest, LosesTheEngineIfAChangeOfTheDirectoryIsNotCommitted) {
  daemon_.options.engine = "memory:";
  faults_->unknown = true;
  NativePeer peer(daemon_);
  peer.connect();
  peer.send(NativePeer::hello_of(1));
  EXPECT_EQ(peer.next().code(), Code::unavailable);
  ASSERT_TRUE(lost());
  EXPECT_NE(daemon_.host.not_ready().find("job directory"), std::string::npos)
      << daemon_.host.not_ready();
  ASSERT_TRUE(opened_again());
  NativePeer again(daemon_);
  again.connect();
  EXPECT_TRUE(again.hello(1));
}

TEST_F(EngineHostTest, PassesOnWhatTheEngineSaysOfItsDisk) {
  EXPECT_EQ(daemon_.host.room_to_tidy(), 4711u);
  std::optional<bool> had_room;
  const auto relieve = [&] {
    had_room.reset();
    daemon_.host.relieve([&](bool room) { had_room = room; });
    return daemon_.turn_until([&] { return had_room.has_value(); });
  };
  ASSERT_TRUE(relieve());
  EXPECT_TRUE(*had_room);
  faults_->had_room = false;
  ASSERT_TRUE(relieve());
  EXPECT_FALSE(*had_room);
  EXPECT_EQ(faults_->relieved, 2u);
}

TEST_F(EngineHostTest, PassesOnTheResultOfACheckpoint) {
  std::optional<Result<void>> done;
  daemon_.host.checkpoint("/nowhere", [&](Result<void> result) { done = result; });
  ASSERT_TRUE(daemon_.turn_until([&] { return done.has_value(); }));
  EXPECT_EQ(done->error().code, Code::unsupported);
}

TEST_F(EngineHostTest, RemovesAJobThatNobodyUses) {
  {
    NativePeer peer(daemon_);
    peer.connect();
    ASSERT_TRUE(peer.hello(1));
    EXPECT_EQ(peer.ask(Goodbye{}, 0, 2).code(), Code::ok);
    peer.wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return peer.wire->closed(); }));
  }
  std::optional<Result<void>> done;
  daemon_.host.remove("digits", [&](Result<void> result) { done = result; });
  ASSERT_TRUE(daemon_.turn_until([&] { return done.has_value(); }));
  EXPECT_TRUE(*done) << done->error().detail;
}

TEST(EngineHostDamage, IsKnownFromTheEngineAndFromReports) {
  SmallDaemon daemon(1, {},
                     std::make_unique<FaultyEngine>(std::make_shared<EngineFaults>(), "a row"));
  EXPECT_EQ(daemon.host.damage(), "a row");
  daemon.host.report_damage("job 7");
  EXPECT_TRUE(daemon.turn_until([&] { return daemon.host.damage() == "job 7"; }));
}

}  // namespace
}  // namespace c10dd::daemon
