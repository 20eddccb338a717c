// SPDX-License-Identifier: Apache-2.0
// One request, or one tick, on its way through a job: what its handlers are told, and what they
// leave for the job to settle. A handler only notes what it has changed; Job::settle() and
// Job::release() draw the consequences, once, at the end of the step.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/effects.h"
#include "daemon/core/group/group.h"
#include "daemon/core/pending.h"
#include "daemon/core/row_key.h"
#include "daemon/core/sessions.h"

namespace c10dd::core {

/// The answer of a request; nothing while it is blocked.
using Maybe = std::optional<Reply>;

/// A token that came true.
struct Signal {
  Bytes token;
  bool status = false;  ///< of a group; in a tick they come last, when the news of all are known
};

struct Step {
  const Origin& from;
  const CallId& call;
  TimePoint now;
  Revision revision;  ///< the job's: `next` as soon as a change is recorded
  Revision next;      ///< the job's revision if this step changes anything
  Effects& out;
  Session* session = nullptr;
  Revision observed = 0;                   ///< what the answer depends on
  bool shows_change = false;               ///< it depends on all that the request itself changes
  std::vector<Signal> signals = {};        ///< in the order in which their waiters are answered
  std::set<Bytes> prefixes = {};           ///< of watches, among the tokens
  std::vector<Bytes> queues = {};          ///< that have got an item
  bool garbage_waits = true;               ///< until some batch takes it along
  std::vector<SessionId> presence = {};    ///< sessions that are back, gone or have ended
  const Pending::Waiter* again = nullptr;  ///< the request was blocked before

  Moment moment() { return {next, now, out.rows}; }
  void observe(Revision seen) { observed = std::max(observed, seen); }
  void signal(Bytes token) { signals.push_back({std::move(token), false}); }
};

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

inline Bytes watch_token(const Watch& watch) {
  return watch.prefix ? Pending::prefix_token(watch.key) : change_token(watch.key);
}

template <class Body>
Maybe reply(Body body) {
  return Reply(ReplyBody(std::move(body)));
}
inline Maybe refuse(Code code, std::string detail) {
  return Reply(failure(code, std::move(detail)));
}

}  // namespace c10dd::core
