// SPDX-License-Identifier: Apache-2.0
#include "collectives/agreement.h"

#include "collectives/who_waits.h"
#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {

std::uint64_t hash_of(const Operation& operation) {
  const OperationInfo& info = info_of(operation.collective);
  const Tensor& common = operation.common();
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  };
  for (const std::uint64_t word :
       {static_cast<std::uint64_t>(operation.collective), static_cast<std::uint64_t>(common.dtype),
        static_cast<std::uint64_t>(operation.lists ? 0 : common.count),
        static_cast<std::uint64_t>(operation.lists),
        static_cast<std::uint64_t>(info.reduces ? operation.reduce.kind : 0),
        static_cast<std::uint64_t>(info.root != Root::none ? operation.root : 0)}) {
    add(word);
  }
  // All ranks know the sizes of the tensors that are reduced.
  if (info.reduces) {
    for (const Tensor& part : operation.inputs) add(part.count);
  }
  return hash;
}

std::string text_of(const Operation& operation) { return text_of(published(operation)); }

Failure issued_differently(const std::vector<Rank>& different, const std::string& theirs,
                           const std::string& first) {
  return failure(Code::size_mismatch, "{} issued {}, but rank 0 issued {}", named(different),
                 theirs, first);
}

Failure sizes_differ(const Operation& operation, Rank from, std::size_t sent, Rank to,
                     std::size_t room) {
  return failure(Code::size_mismatch,
                 "{} {}: rank {} sends {} elements to rank {}, which has a tensor of {} for them",
                 name_of(operation.collective), operation.sequence, from, sent, to, room);
}

}  // namespace c10dd::collectives
