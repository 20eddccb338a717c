// SPDX-License-Identifier: Apache-2.0
// The context of one step of a job. A step is one request, one disconnect or one tick. The context
// holds the input and the output of the handlers. A handler only notes what it has changed;
// Job::settle() and Job::release() act on these notes at the end of the step.
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
#include "daemon/core/sessions/sessions.h"

namespace c10dd::core {

/// The reply to a request; empty while the request is blocked.
using OptionalReply = std::optional<Reply>;

/// A token that fires at the end of the step.
struct Signal {
  Bytes token;
  bool status = false;  ///< the token is about a group's status; a tick fires such tokens last
};

struct Step {
  const Origin& from;
  const CallId& call;
  const Allowance& allowance;  ///< of the sender
  TimePoint now;
  Revision revision;  ///< revision of the job; equals `next` after a change is recorded
  Revision next;      ///< the job's revision if this step changes anything
  Effects& out;
  Session* session = nullptr;
  Revision observed = 0;             ///< newest revision that the reply depends on
  bool shows_change = false;         ///< the reply must wait for all changes of this step
  std::vector<Signal> signals = {};  ///< fire in this order
  std::set<Bytes> prefixes = {};     ///< the tokens in `signals` that belong to prefix watches
  std::vector<Bytes> queues = {};    ///< queues to which the step added or returned an item
  bool may_hang = false;             ///< the diagnosis may change, see Diagnoses::wake()
  bool garbage_waits = true;         ///< if false, this step must also write the garbage rows
  /// Sessions that have connected or lost their connection, count as gone, or have ended.
  std::vector<SessionId> presence = {};
  const Pending::Waiter* again =
      nullptr;  ///< set if the request was blocked before and is tried again

  /// Returns the account that pays for what is held for the sender; null: nobody.
  AccountRef account() const { return session == nullptr ? nullptr : session->account(); }
  ChangeContext change_context() {
    return {next, now, out.rows, session == nullptr ? nullptr : &session->account()};
  }
  void observe(Revision seen) { observed = std::max(observed, seen); }
  void signal(Bytes token) { signals.push_back({std::move(token), false}); }
};

inline constexpr char kKeyToken = 'k';
/// Returns the token that fires when the key is set, or when a queue named `key` has a free item.
inline Bytes key_token(std::string_view key) { return Bytes(1, kKeyToken).append(key); }
/// Returns the token that fires when the key changes in any way.
inline Bytes change_token(std::string_view key) { return Bytes(1, 'w').append(key); }
/// Returns the token of the requests that wait for an item of the queue.
inline Bytes queue_token(const Bytes& queue) { return 'q' + queue; }

/// Returns the token that fires when a session is connected again, loses its connection, counts as
/// gone, or has ended.
inline Bytes presence_token(const SessionId& session) {
  return RowKey('H').number(session.high).number(session.low).take();
}

/// Returns the token that fires when the status of the group changes.
inline Bytes group_token(const std::string& group) { return 'G' + group; }

inline Bytes watch_token(const Watch& watch) {
  return watch.prefix ? Pending::prefix_token(watch.key) : change_token(watch.key);
}

/// Returns a reply with this body. Constructs the reply in place, because moving one is costly.
template <class Body>
OptionalReply reply(Body body) {
  return OptionalReply(std::in_place, boost::system::in_place_value, std::in_place_type<Body>,
                       std::move(body));
}
inline OptionalReply refuse(Code code, std::string detail) {
  return Reply(failure(code, std::move(detail)));
}

}  // namespace c10dd::core
