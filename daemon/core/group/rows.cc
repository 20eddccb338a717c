// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/rows.h"

#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/wording.h"

namespace c10dd::core {

std::uint64_t digest_of(const std::vector<SessionId>& sessions) {
  Bytes places;
  wire::Writer(places).put(sessions);
  return native::fingerprint(ReadMembers::op.code, places);
}

Result<void> check_policy(const RendezvousPolicy& policy) {
  if (policy.min < 1 || policy.max < policy.min || policy.max > limits::kWorldSize) {
    return failure(Code::invalid_argument,
                   "min {} and max {} are invalid: min must be from 1 to max, and max at most {}",
                   policy.min, policy.max, limits::kWorldSize);
  }
  for (const Duration d : {policy.last_call, policy.ttl, policy.grace}) {
    if (d >= Duration::zero() && d <= limits::kTimeoutMax) continue;
    return failure(Code::invalid_argument,
                   "last_call, ttl and grace must be from 0 to {}, but one of them is {}",
                   human(limits::kTimeoutMax), human(d));
  }
  return {};
}

Bytes group_key(char kind, const std::string& name) { return RowKey(kind).text(name).take(); }

Bytes member_key(const std::string& name, const SessionId& id) {
  return RowKey('m').text(name).number(id.high).number(id.low).take();
}

}  // namespace c10dd::core
