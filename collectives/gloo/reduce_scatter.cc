// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo/reduce_scatter.h"

#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "collectives/reduce.h"

namespace c10dd::collectives {
namespace {

// Gloo's own operations have the prefixes 1 to 8.
constexpr std::uint8_t kSlotPrefix = 0x20;

}  // namespace

void ring_reduce_scatter(const std::shared_ptr<::gloo::Context>& context, const Tensor& output,
                         const Tensor& input, ReduceOp op, std::uint32_t tag) {
  const auto size = static_cast<std::size_t>(context->size);
  const auto rank = static_cast<std::size_t>(context->rank);
  const std::size_t bytes = output.bytes();
  std::vector<std::byte> memory(3 * bytes);
  const auto part_of_memory = [&](std::size_t index) {
    Tensor part = output;
    part.data = memory.data() + index * bytes;
    return part;
  };
  const Tensor own = part_of_memory(0);
  const auto load = [&](std::size_t part) {
    std::memcpy(own.data, input.slice(part * output.count, output.count).data, bytes);
    prepare(own, op);
  };
  // `sum` travels: it has the part that this rank sends next. `arriving` gets the part from the
  // previous rank. The part of rank r begins at rank r + 1 and ends at rank r.
  Tensor sum = part_of_memory(1);
  Tensor arriving = part_of_memory(2);
  load((rank + size - 1) % size);
  std::memcpy(sum.data, own.data, bytes);
  const ReduceFunction combine = reduce_function(output.dtype, op);
  const std::uint64_t slot = ::gloo::Slot::build(kSlotPrefix, tag);
  for (std::size_t step = 0; step + 1 < size; ++step) {
    const auto to = context->createUnboundBuffer(sum.data, bytes);
    const auto from = context->createUnboundBuffer(arriving.data, bytes);
    from->recv(static_cast<int>((rank + size - 1) % size), slot, 0, bytes);
    to->send(static_cast<int>((rank + 1) % size), slot, 0, bytes);
    load((rank + 2 * size - 2 - step) % size);
    from->waitRecv();
    to->waitSend();
    combine(arriving.data, arriving.data, own.data, output.count);
    std::swap(sum, arriving);
  }
  finish(sum, op, static_cast<Rank>(size));
  std::memcpy(output.data, sum.data, bytes);
}

}  // namespace c10dd::collectives
