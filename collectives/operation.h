// SPDX-License-Identifier: Apache-2.0
// Lists the operations of a process group in one table, from which the checks of arguments, error
// texts, metrics and backends derive what they need. Operation: one operation with its arguments.
// Standard library only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include <c10dd/reduce_op.h>
#include <c10dd/tensor.h>
#include <c10dd/types.h>

namespace c10dd {

enum class Collective : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier,
  send,
  recv,
};

/// Which tensors an operation has in a group of n ranks.
enum class Layout : std::uint8_t {
  none,
  in_place,          ///< only an output, whose elements are also the input
  gathered,          ///< the output has n times the elements of the input
  gathered_at_root,  ///< the same on the root; the other ranks have only an input
  split,             ///< the input has n times the elements of the output
  split_by_root,     ///< the same on the root; the other ranks have only an output
  exchanged,         ///< input and output have equally many elements, a multiple of n
  sent,              ///< only an input
  received,          ///< only an output
};

/// What the root does, if the operation has a root.
enum class Root : std::uint8_t { none, sends, receives };

/// Describes one kind of operation.
struct OperationInfo {
  Collective collective;
  std::string_view name;      ///< as in error texts and metrics
  std::string_view function;  ///< the function of ProcessGroup
  Layout layout = Layout::none;
  bool reduces = false;  ///< it has a ReduceOp
  Root root = Root::none;
  bool message = false;  ///< it has a peer and a tag, and concerns only this rank and the peer
  /// The part of Operation::payload() that each link carries in a group of n ranks. Source:
  /// nccl-tests, doc/PERFORMANCE.md.
  double (*bus_factor)(double n);
};

/// One entry for each Collective, in that order.
inline constexpr OperationInfo kOperations[] = {
    {.collective = Collective::all_reduce,
     .name = "all_reduce",
     .function = "all_reduce",
     .layout = Layout::in_place,
     .reduces = true,
     .bus_factor = [](double n) { return 2 * (n - 1) / n; }},
    {.collective = Collective::broadcast,
     .name = "broadcast",
     .function = "broadcast",
     .layout = Layout::in_place,
     .root = Root::sends,
     .bus_factor = [](double) { return 1.0; }},
    {.collective = Collective::reduce,
     .name = "reduce",
     .function = "reduce",
     .layout = Layout::in_place,
     .reduces = true,
     .root = Root::receives,
     .bus_factor = [](double) { return 1.0; }},
    {.collective = Collective::all_gather,
     .name = "all_gather",
     .function = "all_gather_single",
     .layout = Layout::gathered,
     .bus_factor = [](double n) { return (n - 1) / n; }},
    {.collective = Collective::reduce_scatter,
     .name = "reduce_scatter",
     .function = "reduce_scatter_single",
     .layout = Layout::split,
     .reduces = true,
     .bus_factor = [](double n) { return (n - 1) / n; }},
    {.collective = Collective::gather,
     .name = "gather",
     .function = "gather_single",
     .layout = Layout::gathered_at_root,
     .root = Root::receives,
     .bus_factor = [](double n) { return (n - 1) / n; }},
    {.collective = Collective::scatter,
     .name = "scatter",
     .function = "scatter_single",
     .layout = Layout::split_by_root,
     .root = Root::sends,
     .bus_factor = [](double n) { return (n - 1) / n; }},
    {.collective = Collective::all_to_all,
     .name = "all_to_all",
     .function = "all_to_all_single",
     .layout = Layout::exchanged,
     .bus_factor = [](double n) { return (n - 1) / n; }},
    {.collective = Collective::barrier,
     .name = "barrier",
     .function = "barrier",
     .bus_factor = [](double) { return 0.0; }},
    {.collective = Collective::send,
     .name = "send",
     .function = "send",
     .layout = Layout::sent,
     .message = true,
     .bus_factor = [](double) { return 1.0; }},
    {.collective = Collective::recv,
     .name = "recv",
     .function = "recv",
     .layout = Layout::received,
     .message = true,
     .bus_factor = [](double) { return 1.0; }},
};

/// Returns whether `collective` is one of the enumerators. A number that was cast may be none.
constexpr bool is_operation(Collective collective) {
  return static_cast<std::size_t>(collective) < std::size(kOperations);
}

constexpr const OperationInfo& info_of(Collective collective) {
  return kOperations[static_cast<std::size_t>(collective)];
}
static_assert([] {
  for (const OperationInfo& info : kOperations) {
    if (&info_of(info.collective) != &info) return false;
  }
  return is_operation(Collective::recv) &&
         std::size(kOperations) == static_cast<std::size_t>(Collective::recv) + 1;
}());

/// Returns the entry with this name, or null.
constexpr const OperationInfo* find_operation(std::string_view name) {
  for (const OperationInfo& info : kOperations) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

/// Returns the name that error texts and metrics use, such as "all_reduce".
constexpr std::string_view name_of(Collective collective) { return info_of(collective).name; }

/// How an operation is issued.
struct CallOptions {
  /// Time limit of this operation, counted from its start; must be above 0. If empty,
  /// GroupOptions::timeout.
  std::optional<Duration> timeout = {};
  /// If true, the call returns at once with work that may be pending. If false, the call returns
  /// after the operation has ended, and throws what Work::wait() would throw. A caller that issues
  /// several operations before it waits, or that issues for several ranks, needs true.
  bool async = false;
};

/// Returns the number of elements of all tensors.
inline std::size_t count_of(const std::vector<Tensor>& list) {
  std::size_t count = 0;
  for (const Tensor& one : list) count += one.count;
  return count;
}

/// Returns the size of all tensors, in bytes.
inline std::size_t bytes_of(const std::vector<Tensor>& list) {
  std::size_t bytes = 0;
  for (const Tensor& one : list) bytes += one.bytes();
  return bytes;
}

inline constexpr Rank kAnyRank = ~Rank{0};                   ///< recv() from any rank
inline constexpr std::uint32_t kAnyTag = ~std::uint32_t{0};  ///< recv() with any tag

/// One operation with its arguments. Fields that its kind does not have are ignored.
struct Operation {
  Collective collective = Collective::barrier;
  Tensor output = {};
  Tensor input = {};  ///< unless the operation is in place
  /// If true, `outputs` or `inputs` (or both) have a tensor for each rank, of any sizes, instead of
  /// the one tensor that would have the elements of all ranks.
  bool lists = false;
  std::vector<Tensor> outputs = {};
  std::vector<Tensor> inputs = {};
  ReduceOp reduce = ReduceOp::sum;
  Rank root = 0;
  Rank peer = 0;          ///< of a message: the other rank; of recv() also kAnyRank
  std::uint32_t tag = 0;  ///< of a message: below kAnyTag; of recv() also kAnyTag

  // The group sets these fields.
  std::uint64_t sequence = 0;  ///< see Work::sequence()
  Duration timeout{0};         ///< time limit, counted from the start of the operation
  std::chrono::steady_clock::time_point deadline = {};
  std::uint64_t batch = 0;      ///< number of its call of ProcessGroup::coalesce(), or 0
  std::uint32_t following = 0;  ///< of coalesce(): how many operations are started after this one

  /// Returns the tensor that has equally many elements on all ranks, or that of a message. With
  /// lists, returns the tensor of this rank, or the first of its inputs; it may be empty.
  const Tensor& common() const {
    const Layout layout = info_of(collective).layout;
    if (lists) {
      if (layout == Layout::exchanged) return inputs.empty() ? output : inputs.front();
      return layout == Layout::split || layout == Layout::split_by_root ? output : input;
    }
    switch (layout) {
      case Layout::gathered:
      case Layout::gathered_at_root:
      case Layout::exchanged:
      case Layout::sent:
        return input;
      default:
        return output;
    }
  }

  /// Returns whether nothing has to be done, because the tensors of this rank, and so those of the
  /// other ranks, have no elements. An operation without tensors, such as a barrier, a message, and
  /// one with lists must run.
  bool is_empty() const {
    const OperationInfo& info = info_of(collective);
    const bool must_run = info.layout == Layout::none || info.message || lists;
    return !must_run && common().count == 0;
  }

  /// Returns the size of the largest tensor of a rank, in bytes, in a group of n ranks.
  std::size_t payload(Rank n) const {
    if (lists) return std::max({bytes_of(outputs), bytes_of(inputs), common().bytes()});
    const Layout layout = info_of(collective).layout;
    const bool times_n = layout == Layout::gathered || layout == Layout::gathered_at_root ||
                         layout == Layout::split || layout == Layout::split_by_root;
    return common().bytes() * (times_n ? n : 1);
  }

  /// Returns the tensor that this rank sends to rank `to`, or null if it sends nothing. Only with
  /// lists, and not for reduce_scatter.
  const Tensor* sent(Rank to) const {
    if (!inputs.empty()) return &inputs[to];
    const bool gives =
        collective == Collective::all_gather || (collective == Collective::gather && to == root);
    return gives ? &input : nullptr;
  }

  /// Returns the tensor into which this rank receives from rank `from`, or null. As sent().
  const Tensor* received(Rank from) const {
    if (!outputs.empty()) return &outputs[from];
    return collective == Collective::scatter && from == root ? &output : nullptr;
  }
};

}  // namespace c10dd
