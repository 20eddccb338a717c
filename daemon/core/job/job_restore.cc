// SPDX-License-Identifier: Apache-2.0
// Restores a job from its rows: passes each row to the part that wrote it, then checks that the
// rows of different parts agree.
#include <algorithm>

#include "daemon/core/job/job.h"
#include "daemon/core/keys/key_row.h"
#include "daemon/core/planted.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/native_wire.h"
#include "protocol/utf8.h"

namespace c10dd::core {

Result<void> Job::restore(const Row& row) {
  if (Sessions::owns(row)) return sessions_.restore(row);
  if (Barriers::owns(row)) return barriers_.restore(row);
  if (Groups::owns(row)) return groups_.restore(row);
  if (Queues::owns(row)) return queues_.restore(row);
  if (History::owns(row)) return history_.restore(row);
  Result<KeyRow> value = wire::decode<KeyRow>(row.value);
  const Bytes key = row.key.substr(std::min<std::size_t>(row.key.size(), 1));
  if (!row.key.starts_with('k') || !check_key(key) || !value || value->revision > revision_ ||
      value->ttl < Duration::zero() || value->ttl > limits::kKeyTtlMax) {
    return failure(Code::malformed,
                   "damaged row of kind '" + printable(row.key.substr(0, 1), 1) + "'");
  }
  lifetimes_.put(key, {value->ttl, value->owner}, TimePoint{});
  launch_.key_restored(key);
  keys_.put(key, std::move(value->value), value->revision);
  return {};
}

Result<void> Job::resume(TimePoint now) {
  if (Result<void> good = sessions_.drop_ended(); !good) return good;
  Revision newest = queues_.observed();
  for (const auto& [id, session] : sessions_.all()) {
    for (const auto& [sequence, stored] : session.replies) {
      Reply reply = ReplyBody(Done{});
      if (!native::decode_reply(stored.op, native::ReplyHeader::Kind::reply, stored.body, reply)) {
        return failure(Code::malformed, "damaged reply row");
      }
      newest = std::max(newest, stored.revision);
    }
    for (const auto& [sequence, delivery] : session.deliveries) {
      if (!queues_.is_free(delivery.queue, delivery.item())) {
        return failure(Code::malformed,
                       "a delivery row names an item that is missing or already delivered");
      }
      queues_.deliver(delivery.queue, delivery.item(), delivery.revision);
      newest = std::max(newest, delivery.revision);
    }
  }
  if (Result<void> good = barriers_.resume(now, restored_); !good) return good;
  for (const SessionId& owner : lifetimes_.owners()) sessions_.expect(owner);
  for (const SessionId& participant : barriers_.participation().sessions()) {
    if (!planted(Planted::guests_forgotten)) sessions_.expect(participant);
  }
  if (Result<void> good = groups_.resume(revision_, now, restored_); !good) return good;
  for (const SessionId& member : groups_.members()) sessions_.expect(member);
  sessions_.resume(now, restored_);  // after the last expect()
  loaded_ = revision_ > 0;
  if (loaded_) diagnoses_.resume(now);
  lifetimes_.resume(now);
  history_.resume(now, restored_);
  newest = std::max(newest, barriers_.newest());
  if (newest <= revision_) return {};
  return failure(Code::malformed, "a row has revision {}, but the newest revision of its job is {}",
                 newest, revision_);
}

}  // namespace c10dd::core
