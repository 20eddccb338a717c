// SPDX-License-Identifier: Apache-2.0
// The sessions of one job: who they say they are, what is kept for their retries, and how long
// they outlive their connections. Rows: stored replies (r, see reply_rows.h), deliveries of queue
// items (c), sessions of which something was kept (s), those of them that have expired (x); the
// rest comes with hello.
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
  Revision revision = 0;  ///< of the batch that holds it

  ItemId item() const { return {item_revision, item_index}; }
};
BOOST_DESCRIBE_STRUCT(Delivery, (), (queue, item_revision, item_index, fingerprint, revision))

/// Whether a session has a connection, may have one again soon, or is taken for dead.
enum class Presence : std::uint8_t { present, away, gone };

/// How a session ends: by its own goodbye, for want of a connection, or since another launch has
/// taken its place.
enum class Ending : std::uint8_t { goodbye, expired, replaced };

struct Session {
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;
  bool connected = false;
  std::uint64_t connection = 0;  ///< Origin::connection
  TimePoint last_seen;           ///< of its own requests; see Sessions::heard
  TimePoint ends;                ///< unless connected
  bool seen = false;             ///< it was connected since the job was loaded
  Revision since = 0;            ///< of the job when it was opened, as far as is known
  Duration expiry{0};            ///< how long after the last connection it ends
  Revision kept_since = 0;       ///< of its row; 0: it has none
  std::uint64_t acked_below = 0;
  std::map<std::uint64_t, StoredReply> replies;  // by sequence, as are the deliveries
  std::map<std::uint64_t, Delivery> deliveries;
};

/// The value of the row of a session that is known to have ended.
struct EndedRow {
  Revision revision = 0;
  bool replaced = false;
};
BOOST_DESCRIBE_STRUCT(EndedRow, (), (revision, replaced))

class Sessions {
 public:
  explicit Sessions(const Quotas& quotas) : quotas_(quotas) {}
  Sessions(Sessions&&) = default;  // not copied: index_ points to what sessions_ holds

  /// session_expired or session_replaced for one that has ended; quota_exceeded when there are too
  /// many and none can be given up, see surplus().
  Result<void> check_open(const Hello& hello) const;
  /// The session to give up before this one is opened: the one that would end next.
  std::optional<SessionId> surplus(const Hello& hello) const;
  /// Opens or re-opens, in a job of this revision. How long it will outlive its connection; a row
  /// if its kept one said else.
  Duration open(const Hello& hello, std::uint64_t connection, Revision revision, TimePoint now,
                std::vector<Row>& rows);

  Session* find(const SessionId& id);
  const Session* find(const SessionId& id) const;
  /// Who said last that it is this rank.
  const SessionId* id_of_rank(Rank rank) const;

  /// Drops the replies and deliveries below the watermark; rows that go with them join the garbage.
  /// The deliveries are handed out: their items can go.
  std::vector<Delivery> acknowledge(const SessionId& id, Session& session,
                                    std::uint64_t acked_below);

  /// Keeps a reply or delivery; the rows must go into the batch of its effect, for a reply also
  /// those of seal().
  void keep(const SessionId& id, Session& session, std::uint64_t sequence, StoredReply reply,
            std::vector<Row>& rows);
  void keep(const SessionId& id, Session& session, std::uint64_t sequence, Delivery delivery,
            std::vector<Row>& rows);
  void seal(std::vector<Row>& rows) { replies_.seal(rows); }
  /// Takes a claim back before it was acknowledged.
  std::optional<Delivery> withdraw(const SessionId& id, Session& session, std::uint64_t sequence,
                                   std::vector<Row>& rows);

  /// A heartbeat of a connection, and the newest sign of life of a session.
  void heard(std::uint64_t connection, TimePoint now);
  TimePoint last_heard(const Session& session) const;

  void disconnect(const SessionId& id, TimePoint now);

  /// A session that is not known is gone.
  Presence presence(const SessionId& id, TimePoint now) const;
  /// When a session without a connection is gone: limits::kAbsence after it was lost, or, if it was
  /// not seen since the job was loaded, limits::kRestartGrace after that.
  TimePoint gone_at(const Session& session) const;

  /// Ends a session for good; its rows go, its deliveries are gone before. Remembered, it is told
  /// so if it comes back, and a late retry is not taken for a first try. One that was replaced
  /// always is.
  void close(const SessionId& id, Ending ending, bool remembered, Revision revision,
             std::vector<Row>& rows);

  /// At most `limit` sessions whose time without a connection is over.
  std::vector<SessionId> due(TimePoint now, std::size_t limit) const;
  std::optional<TimePoint> next_deadline() const;

  /// Takes up a row. malformed for bytes that are none.
  Result<void> restore(const Row& row);
  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("rcsx").find(row.key[0]) != std::string_view::npos;
  }
  /// After the last row, before expect(): drops what is left of sessions that have ended. malformed
  /// for a delivery of nobody.
  Result<void> drop_ended();
  /// After drop_ended(): nobody is connected, everybody's time starts in full.
  void resume(TimePoint now);

  /// Before resume(): a row of another kind belongs to this session.
  void expect(const SessionId& id) { entry(id); }

  /// Adds a row to the garbage.
  void discard(Row row) { garbage_.push_back(std::move(row)); }
  /// Rows that nobody needs any more; they ride along with the next batch.
  std::vector<Row> take_garbage() { return std::exchange(garbage_, {}); }
  std::size_t garbage() const { return garbage_.size(); }

  std::size_t connected() const { return connected_; }
  std::size_t size() const { return sessions_.size(); }
  const std::map<SessionId, Session>& all() const { return sessions_; }

 private:
  Session& entry(const SessionId& id);  // a new one if need be
  void keep_row(const SessionId& id, Session& session, Revision now, std::vector<Row>& rows) const;
  Row row_of(const SessionId& id, const Session& session) const;
  void release(const StoredReply& reply);
  void remember(const SessionId& id, Ending ending, Revision revision, std::vector<Row>& rows);
  void leave_rank(const SessionId& id, const Session& session);
  void leave_connection(const Session& session);
  Result<void> restore_kept(const Row& row);

  Quotas quotas_;
  std::map<SessionId, Session> sessions_;
  std::unordered_map<SessionId, Session*, SessionIdHash> index_;  // of sessions_; looked up only
  std::map<Rank, SessionId> by_rank_;
  struct ConnectionLiveness {
    TimePoint heard;
    std::size_t sessions = 0;
  };
  std::unordered_map<std::uint64_t, ConnectionLiveness>
      connections_;                                     // by connection; looked up only
  std::set<std::pair<TimePoint, SessionId>> detached_;  // by when they end
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
