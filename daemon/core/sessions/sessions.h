// SPDX-License-Identifier: Apache-2.0
// The sessions of one job. A session has a host, a process and a rank. A session keeps replies and
// deliveries for retries, and lives on without a connection until it expires. Five kinds of rows
// are stored: replies (r, see reply_rows.h), deliveries of queue items (c), sessions with kept
// replies or deliveries (s), ended sessions that are remembered (x), and ranks that have left (d).
// No other data is stored, because the client sends the other data again in its next hello.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/effects.h"
#include "daemon/core/keys/queues.h"
#include "daemon/core/quotas.h"
#include "daemon/core/sequence_map.h"
#include "daemon/core/sessions/reply_rows.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "protocol/rows.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The value of a delivery row. Names the delivered item. Kept instead of the reply to a queue_pop.
struct Delivery {
  Bytes queue;
  std::uint64_t item_revision = 0;
  std::uint64_t item_index = 0;
  std::uint64_t fingerprint = 0;
  Revision revision = 0;     ///< revision of the delivery
  std::uint64_t length = 0;  ///< Popped::length
  Charge charge = {};        ///< not stored

  ItemId item() const { return {item_revision, item_index}; }
};
BOOST_DESCRIBE_STRUCT(Delivery, (),
                      (queue, item_revision, item_index, fingerprint, revision, length))

/// Says whether a session has a connection, may have one again soon, or counts as gone.
enum class Presence : std::uint8_t { present, away, gone };

/// Says why a session ends: its client said goodbye, it had no connection for too long, another
/// launch has taken its rank, or it was fleeting and has lost its connection.
enum class Ending : std::uint8_t { goodbye, expired, replaced, disconnected };

/// An item that is kept for the next request of a session, see Wait.
struct Reservation {
  Bytes queue;
  ItemId item;
};

struct Session {
  static constexpr std::uint8_t kCallers = 16;

  /// The principal to which the session belongs; null: not known, or nobody is authenticated.
  std::shared_ptr<const std::string> owner;
  bool observes = false;  ///< Origin::observes: what its hello says counts only for itself
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;
  std::uint32_t world_size = 0;  ///< that its label "world_size" names; 0: none
  bool fleeting = false;         ///< Hello::fleeting
  bool c10d = false;             ///< Hello::c10d
  bool connected = false;
  /// How many requests were under way at the same time, counted when one came while others were
  /// blocked, so another thread made it; at most kCallers.
  std::uint8_t callers = 1;
  std::uint64_t connection = 0;  ///< Origin::connection
  TimePoint connected_at;        ///< when its newest connection began
  TimePoint last_seen;           ///< time of the newest request, or of the loss of the connection
  TimePoint acted;               ///< of the newest request that a program has made: no report
  TimePoint ends;                ///< when the session expires if it stays disconnected
  bool seen = false;             ///< the session has been connected since the job was loaded
  Duration return_time{0};       ///< after the load, until it counts as gone unless it was seen
  Duration noted{0};             ///< SessionRow::return_left of its row
  Revision since = 0;            ///< the job's revision when the session was opened, if known
  Duration expiry{0};            ///< how long the session outlives its connection
  Revision kept_since = 0;       ///< revision of the row of the session; 0: it has no row
  std::uint64_t acked_below = 0;
  SequenceMap<StoredReply> replies;
  std::map<std::uint64_t, Delivery> deliveries;  // by sequence
  std::optional<Reservation> reserved;           ///< only with Hello::c10d
  /// The end of a group's work that it was told when it joined too late, and the sequence of that
  /// join. Its next join begins new work.
  std::pair<Revision, std::uint64_t> sent_away;
  /// With Hello::c10d: the largest number for which it has waited in a counter, as far as it
  /// may be a number of ranks.
  std::int64_t counts_to = 0;
  Charge charge = {};  ///< for the memory of the session
  /// Pays for what is held for the session; null: nobody.
  const AccountRef& account() const { return charge.account(); }
};

/// The row of a session. Stored replies older than `since` belong to an ended session of the same
/// id.
struct SessionRow {
  Duration expiry{0};  ///< 0: the daemon's setting
  Revision since = 0;
  std::string owner;        ///< empty: not known
  Duration return_left{0};  ///< when it was noted, see time_left.h; 0: it is here
};
BOOST_DESCRIBE_STRUCT(SessionRow, (), (expiry, since, owner, return_left))

/// The row of a session that has ended and is remembered.
struct EndedRow {
  Revision revision = 0;
  bool replaced = false;
};
BOOST_DESCRIBE_STRUCT(EndedRow, (), (revision, replaced))

/// A rank of this launch whose session has ended, and that has not come again.
struct Departed {
  std::string host;
  std::uint64_t pid = 0;
  bool expired = false;  ///< its session has expired; otherwise it has said goodbye
  Revision revision = 0;
  std::optional<TimePoint> at = {};  ///< nothing: before the job was loaded
};
BOOST_DESCRIBE_STRUCT(Departed, (), (host, pid, expired, revision))

class Sessions {
 public:
  /// An estimate of the memory of a session without kept replies: of its entries here, in the host
  /// and on its connection.
  static constexpr std::size_t kSessionBytes = 2'048;
  /// The memory of a kept reply, and that of a delivery without the name of its queue.
  static constexpr std::size_t kReplyBytes = 256;
  static constexpr std::size_t kDeliveryBytes = 256;
  /// Kept replies are charged by blocks of so many, so that few requests change the charge.
  static constexpr std::size_t kReplyBlock = 64;

  explicit Sessions(const Quotas& quotas) : quotas_(quotas) {}
  Sessions(Sessions&&) = default;  // not copied: index_ points into sessions_

  /// Fails with permission_denied if the session of a hello exists and belongs to another
  /// principal, and with session_expired if it is a fleeting one, which nobody opens again. Then
  /// the hello must change nothing. A session whose owner is not known belongs to the next
  /// principal that opens it, unless that one may only read.
  Result<void> check_owner(const Origin& from) const;
  /// Fails with session_expired or session_replaced if the session has ended, or if it is fleeting
  /// and connected. Fails with quota_exceeded if the job has too many sessions and all of them are
  /// connected, see surplus(), or if the account of `from` has too many or holds too much.
  Result<void> check_open(const Hello& hello, const Origin& from = {},
                          const Allowance& allowance = {}) const;
  /// Returns the session that must end to make room for `hello`: the session that would expire
  /// next. Returns nothing if the job has room. Call it after check_open() has succeeded.
  std::optional<SessionId> surplus(const Hello& hello) const;
  /// Opens or re-opens a session. `revision` is the job's revision. Returns how long the session
  /// will outlive its connection. If the session has a row and its expiry changes, appends a new
  /// row.
  Duration open(const Hello& hello, const Origin& from, Revision revision, TimePoint now,
                Rows& rows);

  /// Notes who has opened a session: its owner, and whether it may only read. If the session has a
  /// row that lacks the owner, appends a new row. Call it after open().
  void belongs(const SessionId& id, const Origin& from, Rows& rows);
  /// Appends the row of a session that has an owner, unless that row exists. Call it in each step
  /// in which a session changes something, so that the session has its owner after a restart, too.
  void keep_owner(const SessionId& id, Session& session, Revision now, Rows& rows) const;

  Session* find(const SessionId& id);
  const Session* find(const SessionId& id) const;
  /// Returns the session that was the last to name this rank in its hello. Returns nullptr if there
  /// was none, or if that session has ended.
  const SessionId* id_of_rank(Rank rank) const;
  /// Returns what is known of a rank that has left. Returns nullptr if it has a session, if it has
  /// had none since the job had none, or if limits::kDepartedKept others have left since.
  const Departed* departed(Rank rank) const;

  /// Drops the replies and deliveries of sequences below `acked_below`, and adds the deletions of
  /// their rows to the garbage. Returns the dropped deliveries; the caller must erase their items.
  std::vector<Delivery> acknowledge(const SessionId& id, Session& session,
                                    std::uint64_t acked_below);

  /// Fails with quota_exceeded if the session may not keep one more reply or delivery, because its
  /// account holds too much.
  static std::optional<Failure> check_keep(const Session& session, const Allowance& allowance);
  /// Keeps a reply or delivery for retries. Appends to `rows` the row of a delivery, and the row of
  /// the session unless that row exists. append_reply_rows() appends the rows of replies. All these
  /// rows must be in the same batch as the change to which the reply or delivery belongs.
  void keep(const SessionId& id, Session& session, std::uint64_t sequence, StoredReply&& reply,
            Rows& rows);
  void keep(const SessionId& id, Session& session, std::uint64_t sequence, Delivery delivery,
            Rows& rows);
  void append_reply_rows(Rows& rows) { replies_.append_reply_rows(rows); }
  /// Removes and returns a delivery that is not acknowledged; empty if there is none.
  std::optional<Delivery> withdraw(const SessionId& id, Session& session, std::uint64_t sequence,
                                   Rows& rows);

  /// Notes a heartbeat of a connection. The heartbeat counts for all sessions of the connection.
  void heard(std::uint64_t connection, TimePoint now);
  /// Notes whether the host of a connection's peer answers. At first it does, and a hello or a
  /// heartbeat shows that it does. A request shows it, too, but only the connection knows of it.
  void answers(std::uint64_t connection, bool answers);
  /// Returns false if the session is connected, and the host of its peer does not answer.
  bool answers(const Session& session) const;
  /// Returns the time at which the session or its connection was last heard from.
  TimePoint last_heard(const Session& session) const;

  void disconnect(const SessionId& id, TimePoint now);

  /// Returns Presence::gone for an unknown session.
  Presence presence(const SessionId& id, TimePoint now) const;
  /// Returns the time at which a session without a connection counts as gone: limits::kAbsence
  /// after it lost the connection. For a session that has not been connected since the job was
  /// loaded, the time is restart_grace() after the load, or what its row says was left of that.
  TimePoint gone_at(const Session& session) const;
  /// Returns when the row of a session that somebody awaits must have what is left until it counts
  /// as gone; nothing if it need not.
  std::optional<TimePoint> next_note(const Session& session) const;
  /// Stores what is left until the session counts as gone, if next_note() has come.
  void note_return(const SessionId& id, Revision revision, TimePoint now, Rows& rows);
  /// Returns how long the clients have to connect again after the job was loaded.
  Duration restart_grace() const {
    return std::max<Duration>(limits::kRestartGrace, quotas_.takeover_grace);
  }

  /// Removes a session and its rows. Its deliveries must have been withdrawn before. If
  /// `remembered` is true, check_open() later refuses the session, so that a late retry does not
  /// count as a first try. A replaced session is always remembered.
  void close(const SessionId& id, Ending ending, bool remembered, Revision revision, TimePoint now,
             Rows& rows);

  /// Returns at most `limit` sessions whose time of expiry has come, the earliest first.
  std::vector<SessionId> due(TimePoint now, std::size_t limit) const;
  std::optional<TimePoint> next_deadline() const;

  /// Restores one row. Fails with `malformed` if the row is damaged.
  Result<void> restore(const Row& row);
  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("rcsxd").find(row.key[0]) != std::string_view::npos;
  }
  /// Drops the stored replies of sessions that have ended. Call it after the last restore(), before
  /// expect(). Fails with `malformed` if a delivery has no session.
  Result<void> drop_ended();
  /// Gives every session its full expiry from `now` on, because after a restart no session is
  /// connected. Call it after drop_ended() and expect(). Until a session connects, `account` pays
  /// for it.
  void resume(TimePoint now, const AccountRef& account = nullptr);

  /// Adds a session that is named in the rows of a different class, e.g. as the owner of a key.
  /// Call it before resume().
  void expect(const SessionId& id) { entry(id); }

  /// Adds the deletion of a row to the garbage, see take_garbage().
  void discard(const Row& row) { garbage_.push_back(row); }
  /// Moves the garbage to the end of `rows`: deletions of rows that are no longer needed. The next
  /// batch is early enough for these deletions, because no client waits for them.
  void take_garbage(Rows& rows) {
    rows.append(garbage_);
    garbage_.clear();
  }
  std::size_t garbage() const { return garbage_.size(); }

  std::size_t connected() const { return connected_; }
  /// Returns the bytes that are charged for what it holds.
  std::size_t charged() const;
  /// Returns how many sessions may do more than read, connected or not, and how many of them are
  /// connected. A job is in use because of them only.
  std::size_t trainers() const { return sessions_.size() - observers_; }
  std::size_t connected_trainers() const { return connected_ - connected_observers_; }
  /// Recounts the sessions of each connection, and those that may only read.
  AuditResult audit() const;
  std::size_t size() const { return sessions_.size(); }
  const std::map<SessionId, Session>& all() const { return sessions_; }

 private:
  Session& entry(const SessionId& id);  // adds the session if it is unknown
  static void charge_replies(Session& session);
  void keep_row(const SessionId& id, Session& session, Revision now, Rows& rows) const;
  Row row_of(const SessionId& id, const Session& session) const;
  void remember(const SessionId& id, Ending ending, Revision revision, Rows& rows);
  void leave_rank(const SessionId& id, const Session& session);
  bool is_newest_of_its_rank(const SessionId& id, const Session& session) const;
  void depart(Rank rank, Departed departed, Rows& rows);
  void forget_departed(Rank rank, Rows& rows);
  void leave_connection(const Session& session);
  void count_observer(const Session& session, bool comes);
  Result<void> restore_kept(const Row& row);

  Quotas quotas_;
  std::map<SessionId, Session> sessions_;
  std::unordered_map<SessionId, Session*, SessionIdHash> index_;  // of sessions_; never iterated
  std::pair<SessionId, Session*> last_found_;                     // often asked for again at once
  std::map<Rank, SessionId> by_rank_;
  struct ConnectionLiveness {
    TimePoint heard;
    std::size_t sessions = 0;
    bool answers = true;
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
  std::map<Rank, Departed> departed_;
  std::set<std::pair<Revision, Rank>> departed_by_age_;
  ReplyRows replies_;
  Rows garbage_;
  std::size_t noted_ = 0;  // sessions with Session::noted
  std::size_t connected_ = 0;
  std::size_t observers_ = 0;            // sessions that may only read
  std::size_t connected_observers_ = 0;  // of them, those that are connected
};

/// Names the process of a session for error texts, for example "host-b (pid 12)". Returns "a
/// process of an earlier launch" if `session` is null or its host is unknown.
std::string process_of(const Session* session);

}  // namespace c10dd::core
