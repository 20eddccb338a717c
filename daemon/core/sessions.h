// SPDX-License-Identifier: Apache-2.0
// The sessions of one job: their host, process and rank, what is kept for their retries, and how
// long they outlive their connections. Rows: stored replies (r, see reply_rows.h), deliveries of
// queue items (c), sessions with kept replies or deliveries (s), ended sessions that are remembered
// (x). The rest of a session is not stored: its client sends it again with hello.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/queues.h"
#include "daemon/core/quotas.h"
#include "daemon/core/reply_rows.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The value of a delivery row: the reply of a queue_pop is the item itself.
struct Delivery {
  Bytes queue;
  std::uint64_t item_revision = 0;
  std::uint64_t item_index = 0;
  std::uint64_t fingerprint = 0;
  Revision revision = 0;  ///< revision of the delivery

  ItemId item() const { return {item_revision, item_index}; }
};
BOOST_DESCRIBE_STRUCT(Delivery, (), (queue, item_revision, item_index, fingerprint, revision))

/// Whether a session has a connection, may have one again soon, or is taken for dead.
enum class Presence : std::uint8_t { present, away, gone };

/// How a session ends: by its own goodbye, because it had no connection for too long, or because
/// another launch has taken its rank.
enum class Ending : std::uint8_t { goodbye, expired, replaced };

struct Session {
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;
  bool connected = false;
  std::uint64_t connection = 0;  ///< Origin::connection
  TimePoint last_seen;           ///< newest request, or loss of its connection
  TimePoint ends;                ///< when it expires, unless connected
  bool seen = false;             ///< has been connected since the job was loaded
  Revision since = 0;            ///< the job's revision when it was opened, if known
  Duration expiry{0};            ///< how long it outlives its connection
  Revision kept_since = 0;       ///< revision of its row; 0: it has no row
  std::uint64_t acked_below = 0;
  std::map<std::uint64_t, StoredReply> replies;  // by sequence
  std::map<std::uint64_t, Delivery> deliveries;  // by sequence
};

/// The row of a session that has ended and is remembered.
struct EndedRow {
  Revision revision = 0;
  bool replaced = false;
};
BOOST_DESCRIBE_STRUCT(EndedRow, (), (revision, replaced))

class Sessions {
 public:
  explicit Sessions(const Quotas& quotas) : quotas_(quotas) {}
  Sessions(Sessions&&) = default;  // not copied: index_ points into sessions_

  /// Fails with session_expired or session_replaced if the session has ended; with quota_exceeded
  /// if the job has too many sessions and all are connected, see surplus().
  Result<void> check_open(const Hello& hello) const;
  /// Returns the session that must end before this one can be opened: the one that would expire
  /// next. Empty if the job has room. Call it only if check_open() has succeeded.
  std::optional<SessionId> surplus(const Hello& hello) const;
  /// Opens or re-opens a session in a job of this revision. Returns how long it will outlive its
  /// connection. Appends the session's row if the stored one has another expiry.
  Duration open(const Hello& hello, std::uint64_t connection, Revision revision, TimePoint now,
                std::vector<Row>& rows);

  Session* find(const SessionId& id);
  const Session* find(const SessionId& id) const;
  /// Returns the session that was the last to name this rank in its hello; nullptr if none is open.
  const SessionId* id_of_rank(Rank rank) const;

  /// Drops the replies and deliveries below `acked_below`, and adds the deletions of their rows to
  /// the garbage. Returns the dropped deliveries: the caller erases their items.
  std::vector<Delivery> acknowledge(const SessionId& id, Session& session,
                                    std::uint64_t acked_below);

  /// Keeps a reply or delivery for retries. The rows must go into the same batch as the change that
  /// it belongs to; for a reply also those of seal().
  void keep(const SessionId& id, Session& session, std::uint64_t sequence, StoredReply reply,
            std::vector<Row>& rows);
  void keep(const SessionId& id, Session& session, std::uint64_t sequence, Delivery delivery,
            std::vector<Row>& rows);
  void seal(std::vector<Row>& rows) { replies_.seal(rows); }
  /// Removes and returns a delivery that is not acknowledged; empty if there is none.
  std::optional<Delivery> withdraw(const SessionId& id, Session& session, std::uint64_t sequence,
                                   std::vector<Row>& rows);

  /// Notes a heartbeat of a connection, which counts for all its sessions.
  void heard(std::uint64_t connection, TimePoint now);
  /// Returns the time at which the session or its connection was last heard from.
  TimePoint last_heard(const Session& session) const;

  void disconnect(const SessionId& id, TimePoint now);

  /// Returns Presence::gone for an unknown session.
  Presence presence(const SessionId& id, TimePoint now) const;
  /// Returns when a session without a connection is taken for gone: limits::kAbsence after it lost
  /// the connection, or limits::kRestartGrace after the job was loaded if it was not seen since.
  TimePoint gone_at(const Session& session) const;

  /// Removes a session and its rows; its deliveries must have been withdrawn before. A remembered
  /// session is refused by check_open() if it comes back, so that a late retry is not taken for a
  /// first try. A replaced session is always remembered.
  void close(const SessionId& id, Ending ending, bool remembered, Revision revision,
             std::vector<Row>& rows);

  /// Returns at most `limit` sessions that expire now, those that were due first at the front.
  std::vector<SessionId> due(TimePoint now, std::size_t limit) const;
  std::optional<TimePoint> next_deadline() const;

  /// Restores one row. Fails with malformed.
  Result<void> restore(const Row& row);
  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("rcsx").find(row.key[0]) != std::string_view::npos;
  }
  /// Drops what is left of sessions that have ended. Call it after the last restore(), before
  /// expect(). Fails with malformed if a delivery has no session.
  Result<void> drop_ended();
  /// Starts the expiry of every session in full: after a restart no session is connected. Call it
  /// after drop_ended() and expect().
  void resume(TimePoint now);

  /// Adds a session that a row of another kind names. Call it before resume().
  void expect(const SessionId& id) { entry(id); }

  /// Adds a row to the garbage.
  void discard(Row row) { garbage_.push_back(std::move(row)); }
  /// Returns and clears the deletions of rows that are no longer needed. They have no effect that a
  /// client waits for, and go with the next batch.
  std::vector<Row> take_garbage() { return std::exchange(garbage_, {}); }
  std::size_t garbage() const { return garbage_.size(); }

  std::size_t connected() const { return connected_; }
  std::size_t size() const { return sessions_.size(); }
  const std::map<SessionId, Session>& all() const { return sessions_; }

 private:
  Session& entry(const SessionId& id);  // adds it if it is unknown
  void keep_row(const SessionId& id, Session& session, Revision now, std::vector<Row>& rows) const;
  Row row_of(const SessionId& id, const Session& session) const;
  void release(const StoredReply& reply);
  void remember(const SessionId& id, Ending ending, Revision revision, std::vector<Row>& rows);
  void leave_rank(const SessionId& id, const Session& session);
  void leave_connection(const Session& session);
  Result<void> restore_kept(const Row& row);

  Quotas quotas_;
  std::map<SessionId, Session> sessions_;
  std::unordered_map<SessionId, Session*, SessionIdHash> index_;  // of sessions_; never iterated
  std::map<Rank, SessionId> by_rank_;
  struct ConnectionLiveness {
    TimePoint heard;
    std::size_t sessions = 0;
  };
  std::unordered_map<std::uint64_t, ConnectionLiveness>
      connections_;                                     // by connection; never iterated
  std::set<std::pair<TimePoint, SessionId>> detached_;  // without a connection, by expiry
  struct Ended {
    Revision revision = 0;
    Ending ending = Ending::expired;
  };
  std::map<SessionId, Ended> ended_;
  std::set<std::pair<Revision, SessionId>> ended_by_age_;
  ReplyRows replies_;
  std::vector<Row> garbage_;
  std::size_t connected_ = 0;
};

}  // namespace c10dd::core
