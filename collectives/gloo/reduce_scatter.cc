// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo/reduce_scatter.h"

#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collectives/reduce.h"

namespace c10dd::collectives {
namespace {

// Gloo's own operations have the prefixes 1 to 8.
constexpr std::uint8_t kSlotPrefix = 0x20;

}  // namespace

void ring_reduce_scatter(const std::shared_ptr<::gloo::Context>& context, const Tensor& output,
                         const std::vector<Tensor>& parts, ReduceOp op, std::uint32_t tag) {
  const auto size = static_cast<std::size_t>(context->size);
  const auto rank = static_cast<std::size_t>(context->rank);
  std::size_t largest = 0;
  for (const Tensor& part : parts) largest = std::max(largest, part.bytes());
  std::vector<std::byte> memory(3 * largest);
  std::byte* const own = memory.data();
  // `sum` travels: it has the part that this rank sends next. `arriving` gets the part from the
  // previous rank. The part of rank r begins at rank r + 1 and ends at rank r.
  std::byte* sum = own + largest;
  std::byte* arriving = sum + largest;
  const auto load = [&](std::byte* to, const Tensor& part) {
    if (part.count == 0) return;
    Tensor loaded = part;
    loaded.data = to;
    std::memcpy(to, part.data, part.bytes());
    prepare(loaded, op, static_cast<Rank>(size));
  };
  load(sum, parts[(rank + size - 1) % size]);
  const ReduceFunction combine = reduce_function(output.dtype, op);
  const std::uint64_t slot = ::gloo::Slot::build(kSlotPrefix, tag);
  for (std::size_t step = 0; step + 1 < size; ++step) {
    const Tensor& sent = parts[(rank + 2 * size - 1 - step) % size];
    const Tensor& received = parts[(rank + 2 * size - 2 - step) % size];
    const auto to = context->createUnboundBuffer(sum, sent.bytes());
    const auto from = context->createUnboundBuffer(arriving, received.bytes());
    from->recv(static_cast<int>((rank + size - 1) % size), slot, 0, received.bytes());
    to->send(static_cast<int>((rank + 1) % size), slot, 0, sent.bytes());
    load(own, received);
    from->waitRecv();
    to->waitSend();
    combine(arriving, arriving, own, received.count);
    std::swap(sum, arriving);
  }
  if (output.count == 0) return;
  Tensor result = output;
  result.data = sum;
  finish(result, op, static_cast<Rank>(size));
  std::memcpy(output.data, sum, output.bytes());
}

}  // namespace c10dd::collectives
