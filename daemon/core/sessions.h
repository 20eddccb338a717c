// SPDX-License-Identifier: Apache-2.0
// The sessions of one job: who they say they are, and the replies kept for their retries.
// A session outlives its connections. Only replies are rows; the rest comes again with hello.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The value of a reply row. Replies are small by construction: see limits::kStoredReplyBytes.
struct StoredReply {
  std::uint8_t op = 0;
  std::uint64_t fingerprint = 0;
  Bytes body;
  Revision revision = 0;  ///< of the batch that holds it
};
BOOST_DESCRIBE_STRUCT(StoredReply, (), (op, fingerprint, body, revision))

struct Session {
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;
  bool connected = false;
  TimePoint last_seen;
  TimePoint detached_since;  ///< unless connected
  std::uint64_t acked_below = 0;
  std::map<std::uint64_t, StoredReply> replies;
};

class Sessions {
 public:
  /// Opens or re-opens a session; answers the one that was forgotten to make room, if any.
  /// quota_exceeded when none is forgettable.
  Result<std::optional<SessionId>> open(const Hello& hello, TimePoint now);

  Session* find(const SessionId& id);
  const Session* find_rank(Rank rank) const;

  /// Drops the replies below the watermark; their rows join the garbage.
  void acknowledge(const SessionId& id, Session& session, std::uint64_t acked_below);

  /// Keeps a reply; the row must go into the batch of its effect.
  Row keep(const SessionId& id, Session& session, std::uint64_t sequence, StoredReply reply);

  void disconnect(const SessionId& id, TimePoint now);

  /// Ends a session for good; its rows join the garbage.
  void close(const SessionId& id);

  /// Takes up a reply row. malformed for bytes that are none.
  Result<void> restore(const Row& row);
  static bool owns(const Row& row) { return row.key.starts_with('r'); }

  /// Rows that nobody needs any more; they ride along with the next batch.
  std::vector<Row> take_garbage() { return std::exchange(garbage_, {}); }
  std::size_t garbage() const { return garbage_.size(); }

  std::size_t connected() const { return connected_; }

 private:
  std::optional<SessionId> make_room();
  void leave_rank(const SessionId& id, const Session& session);

  std::map<SessionId, Session> sessions_;
  std::map<Rank, SessionId> by_rank_;
  std::set<std::pair<TimePoint, SessionId>> detached_;  // by the time they went
  std::vector<Row> garbage_;
  std::size_t connected_ = 0;
};

}  // namespace c10dd::core
