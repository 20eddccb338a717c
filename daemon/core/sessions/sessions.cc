// SPDX-License-Identifier: Apache-2.0
// Keys of row kinds c, s, x: the kind, the session (16 bytes) and, for c, the sequence (8 bytes);
// of d: the kind and the rank (8 bytes).
#include "daemon/core/sessions/sessions.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "daemon/core/time_left.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {

namespace {

Bytes session_key(char kind, const SessionId& id) {
  return RowKey(kind).number(id.high).number(id.low).take();
}
Bytes call_key(char kind, const SessionId& id, std::uint64_t sequence) {
  return RowKey(kind).number(id.high).number(id.low).number(sequence).take();
}

Bytes rank_key(Rank rank) { return RowKey('d').number(rank).take(); }

/// Returns the number of ranks that a hello names; 0 if it names none that is possible.
std::uint32_t world_size_of(const Hello& hello) {
  const auto label = hello.labels.find("world_size");
  if (label == hello.labels.end()) return 0;
  const auto size = parse_number<std::uint32_t>(label->second);
  return size && *size <= limits::kWorldSize ? *size : 0;
}

}  // namespace

// ---- coming and going --------------------------------------------------------------------------

Result<void> Sessions::check_open(const Hello& hello, const Origin& from,
                                  const Allowance& allowance) const {
  const auto ended = ended_.find(hello.session);
  const bool replaced = ended != ended_.end() && ended->second.ending == Ending::replaced;
  if (replaced && planted(Planted::replaced_goes_on)) return {};
  if (replaced) {
    return failure(Code::session_replaced,
                   "this session has ended: it had no connection, and a restarted process has "
                   "taken its rank at a barrier or exchange; end this process, too");
  }
  if (ended != ended_.end()) {
    return failure(Code::session_expired,
                   "this session has ended: it had no connection for longer than its expiry, or "
                   "had to make room for others; requests without a reply may or may not have been "
                   "applied; open a new session");
  }
  const Session* known = find(hello.session);
  if (known != nullptr) return {};
  const Account* const account = from.account.get();
  // One without a connection makes room for this one.
  const bool makes_room = sessions_.size() >= quotas_.sessions && !detached_.empty();
  const std::size_t all = sessions_.size() - (makes_room ? 1 : 0);
  if (auto full = check_share(account, "sessions", account == nullptr ? 0 : account->sessions, all,
                              quotas_.sessions)) {
    return *full;
  }
  if (auto full = allowance.refuses(kSessionBytes, "a new session")) return *full;
  return {};
}

std::optional<SessionId> Sessions::surplus(const Hello& hello) const {
  if (sessions_.contains(hello.session) || sessions_.size() < quotas_.sessions) return {};
  return detached_.begin()->second;
}

Duration Sessions::open(const Hello& hello, const Origin& from, Revision revision, TimePoint now,
                        Rows& rows) {
  const std::uint64_t connection = from.connection;
  Session& session = entry(hello.session);
  if (session.account() != from.account) {
    session.charge = Charge(from.account, kSessionBytes, &Account::sessions);
  }
  count_observer(session, false);
  session.observes = false;
  if (session.connected) leave_connection(session);
  if (!session.connected) ++connected_;
  session.connection = connection;
  ConnectionLiveness& liveness = connections_[connection];
  ++liveness.sessions;
  liveness.heard = now;
  liveness.answers = true;
  detached_.erase({session.ends, hello.session});
  leave_rank(hello.session, session);
  session.connected = true;
  // A client that knows this incarnation may have opened its session before the job was loaded.
  // Such a client states in its hello the revision at which it opened the session.
  if (!session.seen) session.since = hello.seen.incarnation == 0 ? revision : hello.opened;
  session.seen = true;
  session.host = hello.host;
  session.pid = hello.pid;
  session.rank = hello.rank;
  session.world_size = world_size_of(hello);
  session.connected_at = session.last_seen = now;
  session.fleeting = hello.fleeting;
  session.c10d = hello.c10d;
  Duration expiry = quotas_.session_expiry;
  if (hello.fleeting) {
    expiry = Duration::zero();
  } else if (hello.expiry != Duration::zero()) {
    expiry = std::clamp(hello.expiry, limits::kSessionExpiryMin, limits::kSessionExpiryMax);
  }
  const bool noted = std::exchange(session.noted, Duration::zero()) > Duration::zero();
  if (noted) --noted_;
  const bool changed = std::exchange(session.expiry, expiry) != expiry || noted;
  if (changed && session.kept_since > 0) rows.push_back(row_of(hello.session, session));
  if (hello.rank >= 0) {
    by_rank_[static_cast<Rank>(hello.rank)] = hello.session;
    forget_departed(static_cast<Rank>(hello.rank), rows);
  }
  return expiry;
}

Session& Sessions::entry(const SessionId& id) {
  const auto [it, added] = sessions_.try_emplace(id);
  if (added) index_.emplace(id, &it->second);
  return it->second;
}

Session* Sessions::find(const SessionId& id) {
  if (last_found_.second != nullptr && last_found_.first == id) return last_found_.second;
  const auto it = index_.find(id);
  if (it == index_.end()) return nullptr;
  last_found_ = {id, it->second};
  return it->second;
}
const Session* Sessions::find(const SessionId& id) const {
  const auto it = index_.find(id);
  return it == index_.end() ? nullptr : it->second;
}

const SessionId* Sessions::id_of_rank(Rank rank) const {
  const auto it = by_rank_.find(rank);
  return it == by_rank_.end() ? nullptr : &it->second;
}

void Sessions::disconnect(const SessionId& id, TimePoint now) {
  Session* session = find(id);
  if (session == nullptr || !session->connected) return;
  leave_connection(*session);
  count_observer(*session, false);
  session->connected = false;
  count_observer(*session, true);
  session->last_seen = now;
  session->ends = now + session->expiry;
  --connected_;
  detached_.emplace(session->ends, id);
}

Presence Sessions::presence(const SessionId& id, TimePoint now) const {
  const Session* session = find(id);
  if (session == nullptr) return Presence::gone;
  if (session->connected) return Presence::present;
  return now < gone_at(*session) ? Presence::away : Presence::gone;
}

TimePoint Sessions::gone_at(const Session& session) const {
  if (planted(Planted::away_is_gone)) return session.last_seen;
  const bool soon = session.seen || planted(Planted::early_after_restart);
  return session.last_seen + (soon ? Duration(limits::kAbsence) : session.return_time);
}

std::optional<TimePoint> Sessions::next_note(const Session& session) const {
  const bool is_noted = session.noted > Duration::zero();
  if (session.seen || (!is_noted && noted_ >= limits::kAwayNoted)) return std::nullopt;
  return core::next_note(session.noted, restart_grace(), gone_at(session));
}

void Sessions::note_return(const SessionId& id, Revision revision, TimePoint now, Rows& rows) {
  Session* const session = find(id);
  if (session == nullptr || next_note(*session).value_or(TimePoint::max()) > now) return;
  const auto left = to_note(session->noted, restart_grace(), gone_at(*session) - now);
  if (!left) return;
  if (std::exchange(session->noted, *left) == Duration::zero()) ++noted_;
  if (session->kept_since == 0) session->kept_since = revision;
  rows.push_back(row_of(id, *session));
}

void Sessions::close(const SessionId& id, Ending ending, bool remembered, Revision revision,
                     TimePoint now, Rows& rows) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = it->second;
  C10DD_ASSERT(session.deliveries.empty());
  if (remembered || ending == Ending::replaced) remember(id, ending, revision, rows);
  acknowledge(id, session, ~std::uint64_t{0});
  take_garbage(rows);
  if (session.kept_since > 0) rows.push_back({Row::Kind::erase, session_key('s', id), {}});
  count_observer(session, false);
  if (session.connected) {
    --connected_;
    leave_connection(session);
  }
  detached_.erase({session.ends, id});
  if (session.noted > Duration::zero()) --noted_;
  const bool leaves = !session.host.empty() &&
                      (ending == Ending::goodbye || ending == Ending::expired) &&
                      is_newest_of_its_rank(id, session);
  leave_rank(id, session);
  if (leaves) {
    depart(static_cast<Rank>(session.rank),
           {session.host, session.pid, ending == Ending::expired, revision, now}, rows);
  }
  index_.erase(id);
  last_found_ = {};
  sessions_.erase(it);
  // The next session belongs to another launch.
  while (trainers() == 0 && !departed_.empty()) forget_departed(departed_.begin()->first, rows);
}

const Departed* Sessions::departed(Rank rank) const {
  const auto found = departed_.find(rank);
  return found == departed_.end() ? nullptr : &found->second;
}

bool Sessions::is_newest_of_its_rank(const SessionId& id, const Session& session) const {
  if (session.rank < 0) return false;
  const auto found = by_rank_.find(static_cast<Rank>(session.rank));
  return found != by_rank_.end() && found->second == id;
}

void Sessions::depart(Rank rank, Departed departed, Rows& rows) {
  rows.push_back({Row::Kind::put, rank_key(rank), wire::encode(departed)});
  departed_by_age_.emplace(departed.revision, rank);
  departed_[rank] = std::move(departed);
  if (departed_.size() > limits::kDepartedKept) {
    forget_departed(departed_by_age_.begin()->second, rows);
  }
}

void Sessions::forget_departed(Rank rank, Rows& rows) {
  const auto found = departed_.find(rank);
  if (found == departed_.end()) return;
  departed_by_age_.erase({found->second.revision, rank});
  departed_.erase(found);
  rows.push_back({Row::Kind::erase, rank_key(rank), {}});
}

void Sessions::remember(const SessionId& id, Ending ending, Revision revision, Rows& rows) {
  ended_[id] = {revision, ending};
  ended_by_age_.emplace(revision, id);
  rows.push_back({Row::Kind::put, session_key('x', id),
                  wire::encode(EndedRow{revision, ending == Ending::replaced})});
  while (ended_.size() > limits::kExpiredKept) {
    const SessionId oldest = ended_by_age_.begin()->second;
    ended_by_age_.erase(ended_by_age_.begin());
    ended_.erase(oldest);
    rows.push_back({Row::Kind::erase, session_key('x', oldest), {}});
  }
}

void Sessions::leave_connection(const Session& session) {
  const auto liveness = connections_.find(session.connection);
  if (liveness != connections_.end() && --liveness->second.sessions == 0)
    connections_.erase(liveness);
}

AuditResult Sessions::audit() const {
  std::map<std::uint64_t, std::size_t> counted;
  std::size_t observers = 0;
  std::size_t connected_observers = 0;
  for (const auto& [id, session] : sessions_) {
    if (session.connected) ++counted[session.connection];
    if (session.observes) ++observers;
    if (session.observes && session.connected) ++connected_observers;
  }
  const auto noted = std::ranges::count_if(
      sessions_, [](const auto& one) { return one.second.noted > Duration::zero(); });
  if (AuditResult wrong = first_difference(
          {differ("sessions with a noted return", noted_, static_cast<std::size_t>(noted)),
           differ("sessions that may only read", observers_, observers),
           differ("connected sessions that may only read", connected_observers_,
                  connected_observers)})) {
    return wrong;
  }
  for (const auto& [connection, count] : counted) {
    const auto liveness = connections_.find(connection);
    const std::size_t kept = liveness == connections_.end() ? 0 : liveness->second.sessions;
    if (AuditResult wrong = differ("sessions of a connection", kept, count)) return wrong;
  }
  return differ("connections with sessions", connections_.size(), counted.size());
}

void Sessions::heard(std::uint64_t connection, TimePoint now) {
  const auto liveness = connections_.find(connection);
  if (liveness == connections_.end()) return;
  liveness->second.heard = now;
  liveness->second.answers = true;
}

void Sessions::answers(std::uint64_t connection, bool answers) {
  const auto liveness = connections_.find(connection);
  if (liveness != connections_.end()) liveness->second.answers = answers;
}

bool Sessions::answers(const Session& session) const {
  const auto liveness = connections_.find(session.connection);
  return !session.connected || liveness == connections_.end() || liveness->second.answers;
}

TimePoint Sessions::last_heard(const Session& session) const {
  const auto liveness = connections_.find(session.connection);
  const bool linked = session.connected && liveness != connections_.end();
  return linked ? std::max(session.last_seen, liveness->second.heard) : session.last_seen;
}

void Sessions::leave_rank(const SessionId& id, const Session& session) {
  if (session.rank < 0) return;
  const auto rank = by_rank_.find(static_cast<Rank>(session.rank));
  if (rank != by_rank_.end() && rank->second == id) by_rank_.erase(rank);
}

std::vector<SessionId> Sessions::due(TimePoint now, std::size_t limit) const {
  std::vector<SessionId> ended;
  for (const auto& [ends, id] : detached_) {
    if (ends > now || ended.size() == limit) break;
    ended.push_back(id);
  }
  return ended;
}

std::optional<TimePoint> Sessions::next_deadline() const {
  if (detached_.empty()) return std::nullopt;
  return detached_.begin()->first;
}

// ---- what is kept for retries ------------------------------------------------------------------

std::vector<Delivery> Sessions::acknowledge(const SessionId& id, Session& session,
                                            std::uint64_t acked_below) {
  std::vector<Delivery> acked;
  if (acked_below <= session.acked_below) return acked;
  session.acked_below = acked_below;
  while (!session.replies.empty() && session.replies.begin()->first < acked_below) {
    replies_.release(session.replies.begin()->second.row, garbage_);
    session.replies.pop_front();
  }
  charge_replies(session);
  while (!session.deliveries.empty() && session.deliveries.begin()->first < acked_below) {
    auto node = session.deliveries.extract(session.deliveries.begin());
    garbage_.push_back({Row::Kind::erase, call_key('c', id, node.key()), {}});
    acked.push_back(std::move(node.mapped()));
  }
  return acked;
}

void Sessions::keep(const SessionId& id, Session& session, std::uint64_t sequence,
                    StoredReply&& reply, Rows& rows) {
  C10DD_ASSERT(reply.body.size() <= limits::kStoredReplyBytes);
  keep_row(id, session, reply.revision, rows);
  replies_.add(id, sequence, session.replies.insert_or_assign(sequence, std::move(reply)));
  if (session.replies.size() % kReplyBlock == 0) charge_replies(session);
}

void Sessions::keep(const SessionId& id, Session& session, std::uint64_t sequence,
                    Delivery delivery, Rows& rows) {
  keep_row(id, session, delivery.revision, rows);
  rows.push_back({Row::Kind::put, call_key('c', id, sequence), wire::encode(delivery)});
  delivery.charge = Charge(session.account(), kDeliveryBytes + delivery.queue.size());
  session.deliveries.insert_or_assign(sequence, std::move(delivery));
}

/// If a session has no row yet, writes its row. Without this row, a restart would drop the
/// session's stored replies, and would fail if the session has a delivery.
void Sessions::keep_row(const SessionId& id, Session& session, Revision now, Rows& rows) const {
  if (session.kept_since > 0) return;
  session.kept_since = now;
  rows.push_back(row_of(id, session));
}

Row Sessions::row_of(const SessionId& id, const Session& session) const {
  const bool own = session.expiry != quotas_.session_expiry;
  return {Row::Kind::put, session_key('s', id),
          wire::encode(SessionRow{own ? session.expiry : Duration::zero(), session.kept_since,
                                  session.owner == nullptr ? "" : *session.owner, session.noted})};
}

std::optional<Delivery> Sessions::withdraw(const SessionId& id, Session& session,
                                           std::uint64_t sequence, Rows& rows) {
  auto node = session.deliveries.extract(sequence);
  if (node.empty()) return std::nullopt;
  rows.push_back({Row::Kind::erase, call_key('c', id, sequence), {}});
  return std::move(node.mapped());
}

// ---- restart -----------------------------------------------------------------------------------

Result<void> Sessions::restore(const Row& row) {
  if (row.key[0] == 'r') {
    Result<std::vector<KeptReply>> all = replies_.restore(row);
    if (!all) return all.error();
    for (KeptReply& kept : *all) {
      const auto [at, first] =
          entry(kept.session).replies.try_emplace(kept.sequence, std::move(kept.reply));
      if (first) continue;
      // Of two replies to one sequence, the older belongs to an ended session with the same id.
      if (kept.reply.revision > at.revision) std::swap(kept.reply, at);
      replies_.release(kept.reply.row, garbage_);
    }
    return {};
  }
  if (row.key[0] == 'd') {
    RowKeyReader key(row.key);
    const std::uint64_t rank = key.number();
    Result<Departed> departed = wire::decode<Departed>(row.value);
    if (!key.complete() || !departed || rank >= limits::kWorldSize) {
      return failure(Code::malformed, "damaged row of a rank that has left");
    }
    departed_by_age_.emplace(departed->revision, static_cast<Rank>(rank));
    departed_[static_cast<Rank>(rank)] = std::move(*departed);
    return {};
  }
  if (row.key[0] != 'x') return restore_kept(row);
  RowKeyReader key(row.key);
  const std::uint64_t high = key.number();
  const SessionId id{high, key.number()};
  const Result<EndedRow> value = wire::decode<EndedRow>(row.value);
  if (!key.complete() || !value) return failure(Code::malformed, "damaged row of an ended session");
  ended_[id] = {value->revision, value->replaced ? Ending::replaced : Ending::expired};
  ended_by_age_.emplace(value->revision, id);
  return {};
}

Result<void> Sessions::restore_kept(const Row& row) {
  RowKeyReader key(row.key);
  const std::uint64_t high = key.number();
  const SessionId id{high, key.number()};
  const std::uint64_t sequence = row.key[0] == 's' ? 0 : key.number();
  if (!key.complete()) return failure(Code::malformed, "damaged session row");
  Session& session = entry(id);
  if (row.key[0] == 's') {
    const Result<SessionRow> value = wire::decode<SessionRow>(row.value);
    if (!value || value->expiry < Duration::zero() || value->expiry > limits::kSessionExpiryMax ||
        value->since == 0 || value->owner.size() > limits::kNameBytes ||
        value->return_left < Duration::zero() || value->return_left > limits::kTimeoutMax) {
      return failure(Code::malformed, "damaged session row");
    }
    session.expiry = value->expiry;
    session.kept_since = value->since;
    session.noted = value->return_left;
    if (!value->owner.empty()) session.owner = std::make_shared<const std::string>(value->owner);
  } else {
    Result<Delivery> delivery = wire::decode<Delivery>(row.value);
    if (!delivery) return failure(Code::malformed, "damaged delivery row");
    session.deliveries.emplace(sequence, std::move(*delivery));
  }
  return {};
}

Result<void> Sessions::drop_ended() {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    Session& session = it->second;
    const bool ended = session.kept_since == 0;
    if (ended && !session.deliveries.empty()) {
      return failure(Code::malformed, "delivery of an unknown session");
    }
    session.replies.erase_if([&](const auto& entry) {
      const bool old = ended || entry.second.revision < session.kept_since;
      if (old) replies_.release(entry.second.row, garbage_);
      return old;
    });
    if (ended) index_.erase(it->first);
    last_found_ = {};
    it = ended ? sessions_.erase(it) : std::next(it);
  }
  return {};
}

void Sessions::resume(TimePoint now, const AccountRef& account) {
  for (auto& [id, session] : sessions_) {
    if (session.connected) continue;
    session.charge = Charge(account, kSessionBytes, &Account::sessions);
    charge_replies(session);
    if (session.expiry == Duration::zero()) session.expiry = quotas_.session_expiry;
    session.last_seen = now;
    session.return_time = left_after_load(session.noted, restart_grace());
    if (session.noted > Duration::zero()) ++noted_;
    session.ends = now + session.expiry;
    detached_.emplace(session.ends, id);
  }
}

std::string process_of(const Session* session) {
  if (session == nullptr || session->host.empty()) return "a process of an earlier launch";
  return process_text(session->host, session->pid);
}

}  // namespace c10dd::core
