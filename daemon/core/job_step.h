// SPDX-License-Identifier: Apache-2.0
// One request, or one tick, on its way through a Job; private to job*.cc.
#pragma once

#include <set>

#include "daemon/core/job.h"
#include "daemon/core/row_key.h"

namespace c10dd::core {

struct Job::Step {
  const Origin& from;
  const CallId& call;
  TimePoint now;
  Revision next;  ///< the job's revision if this step changes anything
  Effects& out;
  Session* session = nullptr;
  Revision observed = 0;                   ///< what the answer depends on
  std::vector<Bytes> fired = {};           ///< tokens that came true
  std::set<Bytes> prefixes = {};           ///< of watches, among the tokens
  std::vector<Bytes> queues = {};          ///< that have got an item
  bool garbage_waits = true;               ///< until some batch takes it along
  std::vector<SessionId> presence = {};    ///< sessions that are back, gone or have ended
  const Pending::Waiter* again = nullptr;  ///< the request was blocked before

  Moment moment() { return {next, now, out.rows}; }
  void observe(Revision revision) { observed = std::max(observed, revision); }
};

/// The value of a key row. The last two are left out of most rows.
struct KeyRow {
  Revision revision = 0;
  Bytes value;
  Duration ttl{0};
  SessionId owner{};
};
BOOST_DESCRIBE_STRUCT(KeyRow, (), (revision, value, ttl, owner))

/// What waiters wait for: a key that is set, any change of a key, an item in a queue.
inline Bytes key_token(const Bytes& key) { return 'k' + key; }
inline Bytes change_token(const Bytes& key) { return 'w' + key; }
inline Bytes queue_token(const Bytes& queue) { return 'q' + queue; }

/// That a session without a connection has one again, or is gone.
inline Bytes presence_token(const SessionId& session) {
  return RowKey('H').number(session.high).number(session.low).take();
}

/// News of a group.
inline Bytes group_token(const std::string& group) { return 'G' + group; }
inline bool is_group(const Bytes& token) { return token.starts_with('G'); }

inline Bytes watch_token(const Watch& watch) {
  return watch.prefix ? Pending::prefix_token(watch.key) : change_token(watch.key);
}

template <class Body>
std::optional<Answer> answer(Body body) {
  return Answer(ReplyBody(std::move(body)));
}
inline std::optional<Answer> refuse(Code code, std::string detail) {
  return Answer(failure(code, std::move(detail)));
}

MeetingKey meeting_key(const Barrier& barrier);
MeetingKey meeting_key(const Exchange& exchange);

}  // namespace c10dd::core
