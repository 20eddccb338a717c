// SPDX-License-Identifier: Apache-2.0
// The rows of stored replies. The replies of one batch share a row, because a row per reply
// would double the cost of a small change. The row has kind r, and its name is the revision of
// its first reply. A row is deleted when its last reply is released. A restart loads whole rows,
// including replies that were already released. Of these, Sessions::drop_ended() drops the
// replies of ended sessions. The others are dropped when their session next acknowledges
// replies.
#pragma once

#include <map>
#include <vector>

#include "protocol/error.h"
#include "protocol/ops.h"
#include "protocol/rows.h"
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
  /// Adds a reply to the open row and sets reply.row. The revision of the reply must be higher than
  /// in the previous call.
  void add(const SessionId& session, std::uint64_t sequence, StoredReply& reply);
  /// Appends the rows of all replies added since the last call. These rows must go into the same
  /// batch as the changes that the replies belong to.
  void append_reply_rows(Rows& rows);
  /// Notes that one reply of this row is no longer needed. If no other reply of the row is needed,
  /// appends the deletion of the row to `garbage`, or to the rows of the next append_reply_rows()
  /// if the row itself waits for that.
  void release(Revision row, Rows& garbage);

  /// Returns the replies of a row. Fails with `malformed` if the row is damaged.
  Result<std::vector<KeptReply>> restore(const Row& row);

 private:
  void close(Rows& rows);

  struct NeededRow {
    Revision name = 0;       ///< 0: there is no row
    std::size_t needed = 0;  ///< number of its replies that are still needed
  };

  NeededRow open_;
  Bytes value_;  // of the open row; keeps its memory when the row is closed
  Rows closed_;  // wait for append_reply_rows(), and then the deletions of those that are no longer
                 // needed
  Revision first_closed_ = 0;  // name of the first row closed since append_reply_rows(); 0: none
  NeededRow newest_;           // of the closed rows; usually erased before the next row is closed
  std::map<Revision, std::size_t> older_;  // the other closed rows: their NeededRow::needed
};

}  // namespace c10dd::core
