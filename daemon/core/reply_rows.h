// SPDX-License-Identifier: Apache-2.0
// Stored replies as rows. The replies of one batch share a row (r, named by the revision of the
// first), for a row of its own would cost each small change as much again; it goes when none of
// them is needed any more. Until then it also holds some that are not: after a restart they are
// dropped with the next acknowledgement, or because their session has no row.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "protocol/error.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The answer to a request that changed something. Small: see limits::kStoredReplyBytes.
struct StoredReply {
  std::uint8_t op = 0;
  std::uint64_t fingerprint = 0;
  Bytes body;
  Revision revision = 0;  ///< of the change
  Revision row = 0;       ///< the name of the row that holds it; not in the row itself
};
BOOST_DESCRIBE_STRUCT(StoredReply, (), (op, fingerprint, body, revision))

struct KeptReply {
  SessionId session{};
  std::uint64_t sequence = 0;
  StoredReply reply;
};
BOOST_DESCRIBE_STRUCT(KeptReply, (), (session, sequence, reply))

class ReplyRows {
 public:
  /// Adds it to the open row, whose name it gets. Revisions grow from call to call.
  void add(KeptReply& kept);
  /// The rows of what was added since the last call; to be in the batch of its effects.
  void seal(std::vector<Row>& rows);
  /// One of this row is needed no more. The row that goes with it, if it was the last.
  std::optional<Row> release(Revision row);

  /// What a row holds. malformed for bytes that are none.
  Result<std::vector<KeptReply>> restore(const Row& row);

 private:
  void close();

  Revision open_ = 0;  // 0: none
  Bytes value_;        // of the open one
  std::vector<Row> closed_;
  std::map<Revision, std::size_t> needed_;  // replies of each row
};

}  // namespace c10dd::core
