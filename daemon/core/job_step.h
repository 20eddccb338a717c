// SPDX-License-Identifier: Apache-2.0
// One request on its way through a Job; private to job*.cc.
#pragma once

#include "daemon/core/job.h"

namespace c10dd::core {

struct Job::Step {
  const Origin& from;
  const CallId& call;
  TimePoint now;
  Revision next;  ///< the job's revision if this step changes anything
  Effects& out;
  Session* session = nullptr;
  Revision observed = 0;     ///< what the answer depends on
  std::vector<Bytes> fired;  ///< tokens that came true

  void observe(Revision revision) { observed = std::max(observed, revision); }
};

/// The value of a key row.
struct KeyRow {
  Revision revision = 0;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(KeyRow, (), (revision, value))

/// What waiters for a key wait for.
inline Bytes key_token(const Bytes& key) { return 'k' + key; }

MeetingKey meeting_key(const Barrier& barrier);
MeetingKey meeting_key(const Exchange& exchange);

}  // namespace c10dd::core
