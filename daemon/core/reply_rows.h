// SPDX-License-Identifier: Apache-2.0
// The rows of stored replies. The replies of one batch share a row (kind r, named by the revision
// of the first reply), because a row per reply would double the cost of a small change. A row is
// deleted when its last reply is released. If the daemon restarts earlier, it also loads the row's
// released replies. Then a released reply is dropped at once if its session has no row, and
// otherwise when its session next acknowledges replies.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "protocol/error.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// A kept reply to a request that changed something. Has at most limits::kStoredReplyBytes bytes.
struct StoredReply {
  std::uint8_t op = 0;
  std::uint64_t fingerprint = 0;
  Bytes body;
  Revision revision = 0;  ///< of the change
  Revision row = 0;       ///< name of the row that has this reply; not stored in the row
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
  /// Adds a reply to the open row and sets kept.reply.row. Each call needs a higher revision.
  void add(KeptReply& kept);
  /// Appends the rows of all replies added since the last call. These rows must go into the same
  /// batch as the changes that the replies belong to.
  void seal(std::vector<Row>& rows);
  /// Notes that one reply of this row is no longer needed. If no other reply of the row is needed,
  /// returns the deletion of the row.
  std::optional<Row> release(Revision row);

  /// Returns the replies of a row. Fails with malformed if the row is damaged.
  Result<std::vector<KeptReply>> restore(const Row& row);

 private:
  void close();

  Revision open_ = 0;  // name of the open row; 0: no row is open
  Bytes value_;        // of the open row
  std::vector<Row> closed_;
  std::map<Revision, std::size_t> needed_;  // row -> number of its replies that are still needed
};

}  // namespace c10dd::core
