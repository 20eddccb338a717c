// SPDX-License-Identifier: Apache-2.0
// To whom sessions belong, and which of them may only read.
#include "daemon/core/planted.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/format.h"

namespace c10dd::core {

Result<void> Sessions::check_owner(const Origin& from) const {
  const Session* const known = find(from.session);
  if (known == nullptr) return {};
  if (known->fleeting || from.fleeting) {
    return failure(Code::session_expired,
                   "a fleeting session cannot be reopened, and its ID cannot be used for another "
                   "session; choose another ID");
  }
  if (from.principal == nullptr || planted(Planted::owner_ignored)) return {};
  const bool is_owner = known->owner != nullptr ? *known->owner == *from.principal
                                                : known->observes || !from.observes;
  if (is_owner) return {};
  return failure(Code::permission_denied,
                 "hello: the session is not one of \"{}\"; choose another session ID",
                 *from.principal);
}

void Sessions::belongs(const SessionId& id, const Origin& from, Rows& rows) {
  Session& session = *find(id);
  session.observes = from.observes;
  count_observer(session, true);
  if (session.observes) session.world_size = 0;
  if (session.owner != nullptr || from.principal == nullptr) return;
  session.owner = from.principal;
  if (session.kept_since > 0) rows.push_back(row_of(id, session));
}

/// Counts a session that may only read, or no longer counts it.
void Sessions::count_observer(const Session& session, bool comes) {
  if (!session.observes) return;
  const std::size_t connected = session.connected ? 1 : 0;
  observers_ = comes ? observers_ + 1 : observers_ - 1;
  connected_observers_ =
      comes ? connected_observers_ + connected : connected_observers_ - connected;
}

void Sessions::keep_owner(const SessionId& id, Session& session, Revision now, Rows& rows) const {
  if (session.owner != nullptr && !session.observes) keep_row(id, session, now, rows);
}

}  // namespace c10dd::core
