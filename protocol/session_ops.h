// SPDX-License-Identifier: Apache-2.0
// Operations on sessions: hello, ping, goodbye, cancel. Part of the operation table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <map>
#include <string>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Opens or re-opens a session on the channel that the header of the frame names.
struct Hello {
  static constexpr OpInfo op{1, "hello",     OpKind::event, Access::use,
                             1, Dedup::none, Growth::needed};
  using Body = Welcome;

  std::uint8_t version_min = 1;
  std::uint8_t version_max = 1;
  std::uint64_t features = 0;
  SessionId session;
  std::string job;
  std::string run;  ///< if empty, the session uses the job's permanent name space
  Bytes credential;
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;  ///< rank of this process, if the process knows it; -1: unknown
  std::map<std::string, std::string> labels;
  Stamp seen;  ///< newest stamp that this session has received
  /// How long the session lives without a connection; 0: the daemon's default. The daemon clamps
  /// the value to limits::kSessionExpiryMin .. kSessionExpiryMax.
  Duration expiry{0};
  JobNumber number = 0;  ///< Welcome::job from an earlier reply to hello; 0: no earlier reply
  Revision opened = 0;   ///< Welcome::opened from the session's first reply; 0: a new session
  /// The session ends together with its connection, and nobody can open it again. It keeps no reply
  /// for a retry, and its pops remove their items at once. Only the daemon itself sets this field,
  /// for clients whose protocol has no sessions.
  bool fleeting = false;
  /// The session serves a client of PyTorch's TCPStore. After the reply to a `wait` for one queue,
  /// an item is kept for its next request; its waits may have no end, and are reported if they are
  /// given up; the numbers for which it waits in counters tell how many ranks there are.
  bool c10d = false;
};
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (version_min, version_max, features, session, job, run, credential, host, pid,
                       rank, labels, seen, expiry, number, opened, fleeting, c10d))

/// Heartbeat of a connection. Shows that all sessions with a channel on the connection are alive.
struct Ping {
  static constexpr OpInfo op{2, "ping",      OpKind::event, Access::observe,
                             1, Dedup::none, Growth::none};
  using Body = Done;
};
BOOST_DESCRIBE_STRUCT(Ping, (), ())

/// Ends the session. Removes the session's stored replies and ephemeral keys, and fails its blocked
/// requests. Items that the session has popped but not acknowledged return to their queues.
struct Goodbye {
  static constexpr OpInfo op{3, "goodbye",   OpKind::write, Access::observe,
                             1, Dedup::none, Growth::none};
  using Body = Done;
};
BOOST_DESCRIBE_STRUCT(Goodbye, (), ())

/// Shows a newer credential for the session of the channel, before the old one expires. The session
/// and its requests go on. Has sequence 0, as its reply has.
struct Authenticate {
  static constexpr OpInfo op{69, "authenticate", OpKind::event, Access::observe,
                             1,  Dedup::none,    Growth::none};
  using Body = Authenticated;

  Bytes credential;
};
BOOST_DESCRIBE_STRUCT(Authenticate, (), (credential))

/// Cancels an earlier request of this session. Drops a blocked request without a reply. If the
/// request was a queue_pop that got an item, puts the item back. Changes nothing else.
struct Cancel {
  static constexpr OpInfo op{4, "cancel",    OpKind::write, Access::observe,
                             1, Dedup::none, Growth::none};
  using Body = Done;

  std::uint64_t sequence = 0;  ///< of the request to cancel
};
BOOST_DESCRIBE_STRUCT(Cancel, (), (sequence))

}  // namespace c10dd
