// SPDX-License-Identifier: Apache-2.0
// What a FakeRedis says about a fleet.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "protocol/fields.h"
#include "store/fleet.h"
#include "store/redis/commands.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::daemon {

inline store::DaemonRow daemon_row(std::uint64_t process, std::vector<std::string> addresses,
                                   Duration lease, std::uint64_t beats = 1) {
  store::DaemonRow row;
  row.facts.process = process;
  row.facts.addresses = std::move(addresses);
  row.facts.lease = lease;
  row.beats = beats;
  return row;
}

/// The reply to a heartbeat, or to a reading.
inline std::string fleet_text(const store::FleetReading& fleet) {
  std::string rows = "*" + std::to_string(2 * fleet.daemons.size()) + "\r\n";
  for (const store::DaemonRow& row : fleet.daemons) {
    rows += test::resp_text(store::redis_process(row.facts.process));
    rows += test::resp_text(std::to_string(row.beats) + " " + wire::encode(row.facts));
  }
  return test::resp_array({test::resp_text(fleet.incarnation),
                           test::resp_text(std::to_string(fleet.directory)), rows,
                           test::resp_text(std::to_string(fleet.heartbeat_count)),
                           test::resp_text(fleet.rolled_back), test::resp_text(fleet.accepted)});
}

inline test::FakeReply late(std::string bytes) {
  return {"", test::FakeReply::Then::go_on, std::move(bytes)};
}
inline test::FakeReply last(std::string bytes) {
  return {std::move(bytes), test::FakeReply::Then::close};
}

/// The replies to one look at the settings of a server that syncs `appendfsync`.
inline std::deque<test::FakeReply> server_settings(const std::string& appendfsync) {
  std::deque<test::FakeReply> replies;
  for (const std::string& value :
       {std::string("yes"), appendfsync, std::string("no"), std::string("0"),
        std::string("noeviction"), std::string("536870912"), std::string("1073741824")}) {
    replies.push_back({test::resp_array({test::resp_text("name"), test::resp_text(value)})});
  }
  return replies;
}

}  // namespace c10dd::daemon
