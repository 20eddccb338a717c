// SPDX-License-Identifier: Apache-2.0
// The life of a session, and its heartbeat. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <map>
#include <string>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Opens (or re-opens) a session on the channel of its frame.
struct Hello {
  static constexpr OpInfo op{1, "hello",     OpKind::event, Access::use,
                             1, Dedup::none, Growth::needed};
  using Body = Welcome;

  std::uint8_t version_min = 1;
  std::uint8_t version_max = 1;
  std::uint64_t features = 0;
  SessionId session;
  std::string job;
  std::string run;  ///< empty: the job's permanent name space
  Bytes credential;
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;  ///< the rank that this process believes to be, -1 unknown
  std::map<std::string, std::string> labels;
  Stamp seen;  ///< the newest stamp that this session has received
  /// How long the session outlives its last connection; 0: the daemon's default. Clamped to
  /// limits::kSessionExpiryMin .. kSessionExpiryMax.
  Duration expiry{0};
  JobNumber number = 0;  ///< Welcome::job as this client knows it; 0: it is new here
  Revision opened = 0;   ///< Welcome::opened of this session; 0: the session is new
};
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (version_min, version_max, features, session, job, run, credential, host, pid,
                       rank, labels, seen, expiry, number, opened))

/// Heartbeat of a connection; covers all its channels.
struct Ping {
  static constexpr OpInfo op{2, "ping",      OpKind::event, Access::observe,
                             1, Dedup::none, Growth::none};
  using Body = Done;
};
BOOST_DESCRIBE_STRUCT(Ping, (), ())

/// Ends the session: its stored replies and its own keys go, items that it popped and never
/// acknowledged return to their queues, its blocked requests fail.
struct Goodbye {
  static constexpr OpInfo op{3, "goodbye",   OpKind::write, Access::use,
                             1, Dedup::none, Growth::none};
  using Body = Done;
};
BOOST_DESCRIBE_STRUCT(Goodbye, (), ())

/// Takes back an earlier request of this session whose answer nobody waits for any more: a blocked
/// one is dropped unanswered, an item that was delivered to a queue_pop returns to its queue.
/// Anything else is left as it is.
struct Cancel {
  static constexpr OpInfo op{4, "cancel", OpKind::write, Access::use, 1, Dedup::none, Growth::none};
  using Body = Done;

  std::uint64_t sequence = 0;
};
BOOST_DESCRIBE_STRUCT(Cancel, (), (sequence))

}  // namespace c10dd
