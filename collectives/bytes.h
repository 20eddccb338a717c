// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of bytes, such as serialised objects, whose sizes only their senders
// know. Each exchanges the sizes first, and then the bytes. All are synchronous, and block and
// throw as the operations of ProcessGroup do. Standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10dd/process_group.h>

namespace c10dd {

/// Returns the bytes of all ranks, in rank order.
std::vector<std::string> all_gather_bytes(ProcessGroup& group, std::string bytes);

/// Returns the bytes of all ranks, in rank order, on `root`; an empty list on other ranks.
std::vector<std::string> gather_bytes(ProcessGroup& group, std::string bytes, Rank root);

/// Returns the bytes of `root`. On other ranks, `bytes` is ignored.
std::string broadcast_bytes(ProcessGroup& group, std::string bytes, Rank root);

/// Returns the element of `parts` of `root` that has the number of this rank. On other ranks,
/// `parts` is ignored. Throws InvalidArgument on `root` if `parts` does not have one element for
/// each rank.
std::string scatter_bytes(ProcessGroup& group, std::vector<std::string> parts, Rank root);

/// Sends bytes to `peer`, which must call recv_bytes(). See ProcessGroup::send().
void send_bytes(ProcessGroup& group, std::string bytes, Rank peer, std::uint32_t tag = 0);

/// Bytes that were received, and where they are from.
struct ReceivedBytes {
  std::string bytes;
  Rank source = 0;
  std::uint32_t tag = 0;
};

/// Receives what `peer` (or any rank, if kAnyRank) has sent with send_bytes() and this tag (or any,
/// if kAnyTag). No other thread of this rank may receive messages of the same peer and tag
/// meanwhile.
ReceivedBytes recv_bytes(ProcessGroup& group, Rank peer, std::uint32_t tag = 0);

}  // namespace c10dd
