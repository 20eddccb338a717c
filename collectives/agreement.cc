// SPDX-License-Identifier: Apache-2.0
#include "collectives/agreement.h"

#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

// Where the arguments are in PackedArguments::rest.
constexpr int kByte = 8;
constexpr int kHalf = 32;

}  // namespace

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

PackedArguments packed(const ToldArguments& told) {
  return {.rest = static_cast<std::uint64_t>(told.collective) |
                  static_cast<std::uint64_t>(told.dtype) << kByte |
                  static_cast<std::uint64_t>(told.reduce) << 2 * kByte |
                  std::uint64_t{told.has_type} << 3 * kByte | std::uint64_t{told.rank} << kHalf,
          .count = told.count,
          .tag = told.tag};
}

ToldArguments unpacked(const PackedArguments& packed) {
  const auto byte = [&](int place) {
    return static_cast<std::uint8_t>(packed.rest >> place * kByte);
  };
  return {.collective = static_cast<Collective>(byte(0)),
          .has_type = byte(3) != 0,
          .dtype = static_cast<DType>(byte(1)),
          .reduce = static_cast<ReduceOp::Kind>(byte(2)),
          .count = packed.count,
          .rank = static_cast<Rank>(packed.rest >> kHalf),
          .tag = static_cast<std::uint32_t>(packed.tag)};
}

ToldArguments told_arguments(const Operation& operation) {
  const OperationInfo& info = info_of(operation.collective);
  ToldArguments told{.collective = operation.collective};
  if (info.message) {
    told.rank = operation.peer;
    told.tag = operation.tag;
  } else if (info.root != Root::none) {
    told.rank = operation.root;
  }
  if (info.layout == Layout::none) return told;
  const Tensor& common = operation.common();
  told.count = common.count;
  if (operation.lists) {
    // In gather, scatter and all_to_all with lists, each rank has sizes of its own.
    told.count = operation.collective == Collective::all_gather ? count_of(operation.outputs) : 0;
    if (info.reduces) told.count = count_of(operation.inputs);
  }
  told.has_type = !operation.lists || told.count > 0;
  told.dtype = common.dtype;
  if (info.reduces) told.reduce = operation.reduce.kind;
  return told;
}

std::string text_of(const ToldArguments& arguments) {
  const OperationInfo& info = info_of(arguments.collective);
  std::string text;
  if (arguments.has_type) text = format(" of {} {}", arguments.count, name_of(arguments.dtype));
  if (info.reduces) text += format(" {}", name_of(ReduceOp(arguments.reduce)));
  if (info.root != Root::none || info.message) {
    const bool towards = info.root == Root::receives || arguments.collective == Collective::send;
    text += towards ? " to " : " from ";
    text += arguments.rank == kAnyRank ? "any rank" : format("rank {}", arguments.rank);
  }
  if (info.message) {
    text += " with ";
    text += arguments.tag == kAnyTag ? "any tag" : format("tag {}", arguments.tag);
  }
  return text.empty() ? text : text.substr(1);
}

std::string text_of(const Operation& operation) {
  const std::string arguments = text_of(told_arguments(operation));
  return format("{} {}{}{}", name_of(operation.collective), operation.sequence,
                arguments.empty() ? "" : " ", arguments);
}

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
