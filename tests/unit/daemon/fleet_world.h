// SPDX-License-Identifier: Apache-2.0
// A FleetHost of a small daemon with two shards, over a server that replies as a test says.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/shard/fleet_host.h"
#include "tests/unit/daemon/fleet_replies.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {

class FleetWorld : public testing::Test {
 protected:
  static constexpr const char* kServer = "0123456789";  // as a FakeRedis says in INFO
  static constexpr const char* kOwn = "127.0.0.1:1";

  void SetUp() override {
    options_.engine = redis_.url();
    options_.lease = std::chrono::hours(1);
    options_.mark = home_.path() + "/mark";
    redis_.say("probe", {{"*0\r\n"}});
    redis_.say("EVALSHA", {{"*0\r\n"}});
    redis_.say("leave", {{":1\r\n"}});
    redis_.say("accept", {{":1\r\n"}});
    reading_.heartbeat_count = 5;
    show();
    make();
  }
  void TearDown() override { redis_.server().release(); }

  /// Makes the host anew, as a daemon that starts.
  void make(Duration look_interval = std::chrono::hours(1),
            std::deque<test::FakeReply> settings = server_settings("always")) {
    redis_.say("CONFIG", std::move(settings));
    fleet_.emplace(
        daemon_.loop, options_, std::vector<std::string>{kOwn}, daemon_.host.directory(),
        FleetHost::Engine{[this] { return age_; }, [this] { return server_; },
                          [this](const std::string& why) { lost_.push_back(why); },
                          [this] { return incarnation_; },
                          [this](const std::string& now) { durabilities_.push_back(now); }},
        look_interval);
  }

  /// From now on, the server shows the fleet as reading_ has it.
  void show() { redis_.say("beat", {{fleet_text(reading_)}}); }
  void add(std::uint64_t process, const std::string& address, std::uint64_t beats = 1) {
    reading_.daemons.push_back(daemon_row(process, {address}, options_.lease, beats));
  }

  /// Returns the facts of the heartbeats that have come.
  std::vector<store::DaemonFacts> beats() const {
    std::vector<store::DaemonFacts> all;
    for (const auto& words : redis_.commands("beat")) {
      const std::string& facts = words.at(8);
      if (!facts.empty()) all.push_back(*wire::decode<store::DaemonFacts>(facts));
    }
    return all;
  }
  std::size_t readings() const { return redis_.commands("beat").size() - beats().size(); }
  /// Returns the processes that were removed from the fleet, with their heartbeats.
  std::vector<std::string> removed() const {
    std::vector<std::string> all;
    for (const auto& words : redis_.commands("leave")) {
      all.push_back(words.at(4) + " " + words.at(5));
    }
    return all;
  }
  std::string failure_of(const Result<void>& done) {
    code_ = done ? Code::ok : done.error().code;
    return done ? "" : done.error().detail;
  }
  void join_and_start() {
    ASSERT_EQ(failure_of(fleet_->join()), "");
    fleet_->start(daemon_.shards());
  }
  core::StateMark mark() const {
    const Result<core::StateMark> mark = MarkFile(options_.mark).read();
    return mark ? *mark : core::StateMark{};
  }

  store::FakeRedis redis_;
  TemporaryDirectory home_;
  Options options_;
  store::FleetReading reading_;
  std::string server_ = kServer;
  Bytes incarnation_;
  std::vector<std::string> lost_;
  std::vector<std::string> durabilities_;
  Duration age_{0};  ///< of the oldest commit
  Code code_ = Code::ok;
  SmallDaemon daemon_{2};
  std::optional<FleetHost> fleet_;
};

}  // namespace c10dd::daemon
