// SPDX-License-Identifier: Apache-2.0
// The shortest model of a job's keys: what each operation does to a map, and its reply.
#pragma once

#include <map>
#include <optional>

#include "protocol/ops.h"

namespace c10dd::sim {

class Model {
 public:
  struct Entry {
    Bytes value;
    Revision revision = 0;
    Duration ttl{0};  ///< it ends so long after it was set; 0: never
    SessionId owner;  ///< it ends with this session

    bool operator==(const Entry&) const = default;
  };

  /// Makes the change of a session at this revision and returns the reply; empty for operations
  /// that the model does not know. If the reply is a failure, nothing was changed.
  std::optional<Reply> apply(const Request& request, const SessionId& session, Revision revision);

  std::map<Bytes, Entry> keys;

 private:
  std::optional<Reply> transact(const Transact& request, const SessionId& session,
                                Revision revision);
  bool holds(const Condition& condition) const;
};

}  // namespace c10dd::sim
