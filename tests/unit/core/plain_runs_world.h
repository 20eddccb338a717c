// SPDX-License-Identifier: Apache-2.0
// PlainRuns, and the time that passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/torch/plain_runs.h"

namespace c10dd::core {

class PlainRunsTest : public testing::Test {
 protected:
  using Kind = PlainRuns::First::Kind;
  using Connections = std::vector<PlainRuns::Connection>;
  using Names = std::vector<std::string>;

  static PlainRuns::Peer peer(std::uint64_t pid, const std::string& address = "10.0.0.1") {
    return {address, pid};
  }
  std::string join(PlainRuns::Connection connection, const PlainRuns::Peer& peer) {
    return bind(connection, peer, {Kind::join, {}});
  }
  std::string other(PlainRuns::Connection connection, const PlainRuns::Peer& peer) {
    return bind(connection, peer, {});
  }
  std::string bind(PlainRuns::Connection connection, const PlainRuns::Peer& peer,
                   const PlainRuns::First& first) {
    last_ = runs_.bind(connection, peer, first, now_);
    EXPECT_EQ(runs_.run_of(connection), last_.run);
    return last_.run;
  }
  Names close(PlainRuns::Connection connection) { return runs_.closed(connection).ended; }
  PlainRuns::Outcome set(PlainRuns::Connection connection, const std::string& key,
                         bool blocked = false) {
    return runs_.set_key(connection, {key}, blocked, now_);
  }
  bool noted(std::string_view what) const {
    return std::ranges::any_of(last_.notes,
                               [&](const PlainRuns::Note& note) { return note.what == what; });
  }
  void pass(Duration time) { now_ += time; }

  static constexpr const char* kRank0 = "/default_pg/0//cpu//0/0";
  static constexpr const char* kRank3 = "/default_pg/0//cpu//0/3";

  PlainRuns runs_;
  PlainRuns::Outcome last_;
  TimePoint now_;
};

}  // namespace c10dd::core
