// SPDX-License-Identifier: Apache-2.0
// Row key of a stored reply: 'r', session (16 bytes), sequence (8 bytes), big endian.
#include "daemon/core/sessions.h"

#include <algorithm>

#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

Bytes reply_key(const SessionId& id, std::uint64_t sequence) {
  return RowKey('r').number(id.high).number(id.low).number(sequence).take();
}

}  // namespace

Result<std::optional<SessionId>> Sessions::open(const Hello& hello, TimePoint now) {
  std::optional<SessionId> forgotten;
  auto it = sessions_.find(hello.session);
  if (it == sessions_.end()) {
    if (sessions_.size() >= limits::kSessionsPerJob) forgotten = make_room();
    if (sessions_.size() >= limits::kSessionsPerJob) {
      return failure(Code::quota_exceeded,
                     "too many sessions in the job: " + std::to_string(sessions_.size()) +
                         ", limit " + std::to_string(limits::kSessionsPerJob));
    }
    it = sessions_.emplace(hello.session, Session{}).first;
  }
  Session& session = it->second;
  if (!session.connected) ++connected_;
  detached_.erase({session.detached_since, hello.session});
  leave_rank(hello.session, session);
  session.connected = true;
  session.host = hello.host;
  session.pid = hello.pid;
  session.rank = hello.rank;
  session.last_seen = now;
  if (hello.rank >= 0) by_rank_[static_cast<Rank>(hello.rank)] = hello.session;
  return forgotten;
}

Session* Sessions::find(const SessionId& id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second;
}

const Session* Sessions::find_rank(Rank rank) const {
  const auto it = by_rank_.find(rank);
  if (it == by_rank_.end()) return nullptr;
  const auto session = sessions_.find(it->second);
  return session == sessions_.end() ? nullptr : &session->second;
}

void Sessions::acknowledge(const SessionId& id, Session& session, std::uint64_t acked_below) {
  if (acked_below <= session.acked_below) return;
  session.acked_below = acked_below;
  while (!session.replies.empty() && session.replies.begin()->first < acked_below) {
    garbage_.push_back({Row::Kind::erase, reply_key(id, session.replies.begin()->first), {}});
    session.replies.erase(session.replies.begin());
  }
}

Row Sessions::keep(const SessionId& id, Session& session, std::uint64_t sequence,
                   StoredReply reply) {
  C10DD_ASSERT(reply.body.size() <= limits::kStoredReplyBytes);
  Row row{Row::Kind::put, reply_key(id, sequence), wire::encode(reply)};
  session.replies.insert_or_assign(sequence, std::move(reply));
  return row;
}

void Sessions::disconnect(const SessionId& id, TimePoint now) {
  Session* session = find(id);
  if (session == nullptr || !session->connected) return;
  session->connected = false;
  session->last_seen = now;
  session->detached_since = now;
  --connected_;
  detached_.emplace(now, id);
}

void Sessions::close(const SessionId& id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = it->second;
  acknowledge(id, session, ~std::uint64_t{0});
  if (session.connected) --connected_;
  detached_.erase({session.detached_since, id});
  leave_rank(id, session);
  sessions_.erase(it);
}

void Sessions::leave_rank(const SessionId& id, const Session& session) {
  if (session.rank < 0) return;
  const auto rank = by_rank_.find(static_cast<Rank>(session.rank));
  if (rank != by_rank_.end() && rank->second == id) by_rank_.erase(rank);
}

/// Forgets the session that has been away longest and has nothing stored.
std::optional<SessionId> Sessions::make_room() {
  const auto forgettable = [&](const auto& entry) { return find(entry.second)->replies.empty(); };
  const auto it = std::find_if(detached_.begin(), detached_.end(), forgettable);
  if (it == detached_.end()) return std::nullopt;
  const SessionId id = it->second;
  close(id);
  return id;
}

Result<void> Sessions::restore(const Row& row) {
  RowKeyReader key(row.key);
  const std::uint64_t high = key.number();
  const std::uint64_t low = key.number();
  const std::uint64_t sequence = key.number();
  Result<StoredReply> reply = wire::decode<StoredReply>(row.value);
  if (!key.complete() || !reply) return failure(Code::malformed, "damaged reply row");
  const SessionId id{high, low};
  const auto [it, added] = sessions_.try_emplace(id);
  if (added) detached_.emplace(it->second.detached_since, id);
  it->second.replies.emplace(sequence, std::move(*reply));
  return {};
}

}  // namespace c10dd::core
