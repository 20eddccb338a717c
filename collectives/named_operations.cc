// SPDX-License-Identifier: Apache-2.0
// The functions of ProcessGroup that are named after operations. Each fills an Operation and passes
// it to issue().
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "client/internal/throw_failure.h"
#include "collectives/process_group.h"
#include "protocol/format.h"

namespace c10dd {
namespace {

/// Returns the parts of the tensor that have `counts` elements, one after the other.
std::vector<Tensor> split_by(const std::vector<std::size_t>& counts, const Tensor& tensor,
                             const char* name, Rank size) {
  if (counts.size() != size) {
    client::throw_failure(
        failure(Code::invalid_argument,
                "all_to_all_single: the number of splits of the {} is {}, but must be {}, "
                "one for each rank",
                name, counts.size(), size));
  }
  std::vector<Tensor> parts;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    if (count > tensor.count - begin) break;
    parts.push_back(tensor.slice(begin, count));
    begin += count;
  }
  if (begin == tensor.count && parts.size() == counts.size()) return parts;
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  client::throw_failure(
      failure(Code::invalid_argument,
              "all_to_all_single: the splits of the {} add up to {}, but the tensor has {} "
              "elements",
              name, sum, tensor.count));
}

}  // namespace

WorkPtr ProcessGroup::all_reduce(Tensor tensor, ReduceOp op, CallOptions options) {
  return issue({.collective = Collective::all_reduce, .output = std::move(tensor), .reduce = op},
               options);
}

WorkPtr ProcessGroup::broadcast(Tensor tensor, Rank root, CallOptions options) {
  return issue({.collective = Collective::broadcast, .output = std::move(tensor), .root = root},
               options);
}

WorkPtr ProcessGroup::all_gather_single(Tensor output, Tensor input, CallOptions options) {
  return issue({.collective = Collective::all_gather,
                .output = std::move(output),
                .input = std::move(input)},
               options);
}

WorkPtr ProcessGroup::reduce(Tensor tensor, Rank root, ReduceOp op, CallOptions options) {
  return issue(
      {.collective = Collective::reduce, .output = std::move(tensor), .reduce = op, .root = root},
      options);
}

WorkPtr ProcessGroup::reduce_scatter_single(Tensor output, Tensor input, ReduceOp op,
                                            CallOptions options) {
  return issue({.collective = Collective::reduce_scatter,
                .output = std::move(output),
                .input = std::move(input),
                .reduce = op},
               options);
}

WorkPtr ProcessGroup::gather_single(Tensor output, Tensor input, Rank root, CallOptions options) {
  return issue({.collective = Collective::gather,
                .output = std::move(output),
                .input = std::move(input),
                .root = root},
               options);
}

WorkPtr ProcessGroup::scatter_single(Tensor output, Tensor input, Rank root, CallOptions options) {
  return issue({.collective = Collective::scatter,
                .output = std::move(output),
                .input = std::move(input),
                .root = root},
               options);
}

WorkPtr ProcessGroup::all_to_all_single(Tensor output, Tensor input, CallOptions options) {
  return issue({.collective = Collective::all_to_all,
                .output = std::move(output),
                .input = std::move(input)},
               options);
}

WorkPtr ProcessGroup::barrier(CallOptions options) {
  return issue({.collective = Collective::barrier}, options);
}

WorkPtr ProcessGroup::all_gather(std::vector<Tensor> outputs, Tensor input, CallOptions options) {
  return issue({.collective = Collective::all_gather,
                .input = std::move(input),
                .lists = true,
                .outputs = std::move(outputs)},
               options);
}

WorkPtr ProcessGroup::reduce_scatter(Tensor output, std::vector<Tensor> inputs, ReduceOp op,
                                     CallOptions options) {
  return issue({.collective = Collective::reduce_scatter,
                .output = std::move(output),
                .lists = true,
                .inputs = std::move(inputs),
                .reduce = op},
               options);
}

WorkPtr ProcessGroup::gather(std::vector<Tensor> outputs, Tensor input, Rank root,
                             CallOptions options) {
  return issue({.collective = Collective::gather,
                .input = std::move(input),
                .lists = true,
                .outputs = std::move(outputs),
                .root = root},
               options);
}

WorkPtr ProcessGroup::scatter(Tensor output, std::vector<Tensor> inputs, Rank root,
                              CallOptions options) {
  return issue({.collective = Collective::scatter,
                .output = std::move(output),
                .lists = true,
                .inputs = std::move(inputs),
                .root = root},
               options);
}

WorkPtr ProcessGroup::all_to_all(std::vector<Tensor> outputs, std::vector<Tensor> inputs,
                                 CallOptions options) {
  return issue({.collective = Collective::all_to_all,
                .lists = true,
                .outputs = std::move(outputs),
                .inputs = std::move(inputs)},
               options);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): takes tensors as the other operations do
WorkPtr ProcessGroup::all_to_all_single(Tensor output, Tensor input,
                                        const std::vector<std::size_t>& output_splits,
                                        const std::vector<std::size_t>& input_splits,
                                        CallOptions options) {
  return all_to_all(split_by(output_splits, output, "output", size()),
                    split_by(input_splits, input, "input", size()), options);
}

WorkPtr ProcessGroup::send(Tensor tensor, Rank peer, std::uint32_t tag, CallOptions options) {
  return issue(
      {.collective = Collective::send, .input = std::move(tensor), .peer = peer, .tag = tag},
      options);
}

WorkPtr ProcessGroup::recv(Tensor tensor, Rank peer, std::uint32_t tag, CallOptions options) {
  return issue(
      {.collective = Collective::recv, .output = std::move(tensor), .peer = peer, .tag = tag},
      options);
}

}  // namespace c10dd
