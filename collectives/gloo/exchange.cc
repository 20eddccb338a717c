// SPDX-License-Identifier: Apache-2.0
#include "collectives/gloo/exchange.h"

#include <gloo/transport/unbound_buffer.h>

#include <cstring>
#include <vector>

namespace c10dd::collectives {
namespace {

constexpr std::uint64_t kExchangeSlots = std::uint64_t{0x21} << 56;  // see reduce_scatter.cc

/// Returns the slot of a tensor. It depends on the size, so that tensors of different sizes never
/// meet: Gloo would end the process.
std::uint64_t slot_of(std::uint32_t tag, std::size_t bytes) {
  const std::uint64_t hash = (bytes + 1) * 0x9e3779b97f4a7c15u >> 40;
  return kExchangeSlots | std::uint64_t{tag} << 24 | hash;
}

}  // namespace

void exchange(const std::shared_ptr<::gloo::Context>& context, const Operation& operation,
              std::uint32_t tag) {
  using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;
  std::vector<Buffer> receiving;
  std::vector<Buffer> sending;
  const int rank = context->rank;
  const int size = context->size;
  for (int i = 1; i < size; ++i) {
    const int from = (rank + size - i) % size;
    const Tensor* const tensor = operation.received(static_cast<Rank>(from));
    if (tensor == nullptr || tensor->count == 0) continue;
    receiving.push_back(context->createUnboundBuffer(tensor->data, tensor->bytes()));
    receiving.back()->recv(from, slot_of(tag, tensor->bytes()), 0, tensor->bytes());
  }
  for (int i = 1; i < size; ++i) {
    const int to = (rank + i) % size;
    const Tensor* const tensor = operation.sent(static_cast<Rank>(to));
    if (tensor == nullptr || tensor->count == 0) continue;
    sending.push_back(context->createUnboundBuffer(tensor->data, tensor->bytes()));
    sending.back()->send(to, slot_of(tag, tensor->bytes()), 0, tensor->bytes());
  }
  const Tensor* const from = operation.sent(static_cast<Rank>(rank));
  const Tensor* const to = operation.received(static_cast<Rank>(rank));
  if (from != nullptr && to != nullptr && from->count > 0) {
    std::memmove(to->data, from->data, from->bytes());  // it may be in its place already
  }
  for (const Buffer& buffer : receiving) buffer->waitRecv();
  for (const Buffer& buffer : sending) buffer->waitSend();
}

}  // namespace c10dd::collectives
