// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight_ring.h"

#include <algorithm>

namespace c10dd::collectives {
namespace {

std::uint64_t word_of(Duration duration) { return static_cast<std::uint64_t>(duration.count()); }
std::uint64_t word_of(CollectiveCall::Clock::time_point time) {
  return word_of(Duration(time.time_since_epoch()));
}
Duration duration_in(std::uint64_t number) { return Duration(static_cast<Duration::rep>(number)); }
CollectiveCall::Clock::time_point time_in(std::uint64_t number) {
  return CollectiveCall::Clock::time_point(duration_in(number));
}

/// How many elements an operation reads and writes on this rank.
struct Elements {
  std::uint64_t inputs;
  std::uint64_t outputs;
};

Elements elements_of(const Operation& operation) {
  const Layout layout = info_of(operation.collective).layout;
  if (layout == Layout::none) return {0, 0};
  if (layout == Layout::in_place) return {operation.output.count, operation.output.count};
  if (!operation.lists) return {operation.input.count, operation.output.count};
  return {operation.input.count + count_of(operation.inputs),
          operation.output.count + count_of(operation.outputs)};
}

}  // namespace

std::uint64_t FlightRing::issue(std::uint64_t group, const CollectiveCall& call,
                                std::uint64_t others) noexcept {
  const std::uint64_t ticket = tickets_.fetch_add(1, std::memory_order_relaxed) + 1;
  const Operation& operation = call.operation;
  const PackedArguments told = packed(told_arguments(operation));
  const Elements elements = elements_of(operation);
  Slot& slot = slot_of(ticket);
  const bool message = info_of(operation.collective).message;
  slot.ticket.store(ticket, std::memory_order_relaxed);
  slot.key.store(key_of(group, operation.sequence, message), std::memory_order_relaxed);
  static_cast<void>(slot.issued.write({ticket, group, operation.sequence, others, told.rest,
                                       told.count, told.tag, elements.inputs, elements.outputs,
                                       word_of(operation.timeout), word_of(call.enqueued)}));
  return ticket;
}

void FlightRing::update(std::uint64_t ticket, const CollectiveCall& call) noexcept {
  Slot& slot = slot_of(ticket);
  if (slot.ticket.load(std::memory_order_relaxed) != ticket) return;
  const bool told = slot.ended.write({ticket, word_of(call.begun), word_of(call.finished),
                                      static_cast<std::uint64_t>(call.outcome)});
  if (!told) slot.lost.store(ticket, std::memory_order_relaxed);
}

std::optional<std::uint64_t> FlightRing::find(std::uint64_t group, std::uint64_t sequence,
                                              bool message) const noexcept {
  const std::uint64_t key = key_of(group, sequence, message);
  for (const Slot& slot : slots_) {
    if (slot.key.load(std::memory_order_relaxed) != key) continue;
    const std::optional<FlownOperation> one = read(slot);
    if (one && one->group == group && one->sequence == sequence && one->is_message() == message) {
      return one->ticket;
    }
  }
  return std::nullopt;
}

std::vector<FlownOperation> FlightRing::read() const {
  std::vector<FlownOperation> all;
  all.reserve(kOperations);
  for (const Slot& slot : slots_) {
    if (const auto one = read(slot)) all.push_back(*one);
  }
  std::ranges::sort(all, {}, &FlownOperation::ticket);
  return all;
}

std::optional<FlownOperation> FlightRing::read(const Slot& slot) {
  const auto issued = slot.issued.read();
  if (!issued) return std::nullopt;
  const auto& [ticket, group, sequence, others, told, count, tag, inputs, outputs, timeout, at] =
      *issued;
  // A newer operation is taking this slot. The end of the older one is not stored any more, so it
  // would be shown as unfinished.
  if (slot.ticket.load(std::memory_order_relaxed) != ticket) return std::nullopt;
  FlownOperation one{.ticket = ticket, .group = group, .sequence = sequence, .others = others};
  one.arguments = unpacked({told, count, tag});
  one.inputs = inputs;
  one.outputs = outputs;
  one.timeout = duration_in(timeout);
  one.issued = time_in(at);
  const auto ended = slot.ended.read();
  if (ended && ended->front() == ticket) {
    one.begun = time_in((*ended)[1]);
    one.finished = time_in((*ended)[2]);
    one.outcome = static_cast<Code>((*ended)[3]);
  }
  const bool unfinished = one.finished == CollectiveCall::Clock::time_point();
  if (unfinished && slot.lost.load(std::memory_order_relaxed) == ticket) return std::nullopt;
  return one;
}

}  // namespace c10dd::collectives
