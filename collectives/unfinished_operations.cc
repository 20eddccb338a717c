// SPDX-License-Identifier: Apache-2.0
// The slot of an operation is its sequence modulo the number of slots. An operation that has not
// ended keeps its slot from those that are issued later; but one that begins takes its slot from a
// later one, because it is the older.
#include "collectives/unfinished_operations.h"

#include <algorithm>
#include <string>

#include "collectives/agreement.h"
#include "protocol/limits.h"

namespace c10dd::collectives {
namespace {

// The bits of Slot::state below the sequence.
constexpr std::uint64_t kUnfinished = 1;
constexpr std::uint64_t kBegun = 2;
constexpr int kSequenceShift = 2;

constexpr std::uint64_t state_of(std::uint64_t sequence) {
  return sequence << kSequenceShift | kUnfinished;
}

UnfinishedOperation::Kind kind_of(Collective collective) {
  if (collective == Collective::send) return UnfinishedOperation::Kind::send;
  if (collective == Collective::recv) return UnfinishedOperation::Kind::receive;
  return UnfinishedOperation::Kind::collective;
}

std::uint32_t clamped(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, ~std::uint32_t{0}));
}

}  // namespace

void UnfinishedOperations::issue(const CollectiveCall& call) noexcept {
  const std::uint64_t sequence = call.operation.sequence;
  Slot& slot = slot_of(sequence);
  if (slot.state.load(std::memory_order_relaxed) == 0) describe(slot, call, false);
  issued_.store(sequence + 1, std::memory_order_release);
}

void UnfinishedOperations::begin(const CollectiveCall& call) noexcept {
  const std::uint64_t sequence = call.operation.sequence;
  Slot& slot = slot_of(sequence);
  std::uint64_t state = state_of(sequence);
  const bool is_described =
      slot.state.compare_exchange_strong(state, state | kBegun, std::memory_order_relaxed);
  // Otherwise compare_exchange_strong() has read whose slot it is.
  if (!is_described && (state == 0 || state >> kSequenceShift > sequence)) {
    describe(slot, call, true);
  }
  begun_.fetch_add(1, std::memory_order_release);
}

std::uint64_t UnfinishedOperations::end(const CollectiveCall& call) noexcept {
  const std::uint64_t sequence = call.operation.sequence;
  Slot& slot = slot_of(sequence);
  std::uint64_t state = slot.state.load(std::memory_order_relaxed);
  if (state != 0 && state >> kSequenceShift == sequence) {
    slot.state.compare_exchange_strong(state, 0, std::memory_order_relaxed);
  }
  if (call.begun == CollectiveCall::Clock::time_point{}) {
    begun_.fetch_add(1, std::memory_order_release);
  }
  return ended_.fetch_add(1, std::memory_order_release) + 1;
}

// Two threads may do this at once, if an operation begins while a later one is issued. Then the
// state may name the one and the record the other: read() leaves out such a slot.
void UnfinishedOperations::describe(Slot& slot, const CollectiveCall& call, bool begun) noexcept {
  const PackedArguments told = packed(told_arguments(call.operation));
  const std::uint64_t sequence = call.operation.sequence;
  const auto number = [](Duration duration) {
    return static_cast<std::uint64_t>(duration.count());
  };
  const bool written =
      slot.record.write({sequence, told.rest, told.count, told.tag,
                         number(call.enqueued.time_since_epoch()), number(call.operation.timeout)});
  if (!written) return;
  slot.state.store(state_of(sequence) | (begun ? kBegun : 0), std::memory_order_release);
}

UnfinishedOperations::Seen UnfinishedOperations::read() const {
  constexpr int kTries = 4;
  const auto same = [](const OperationCounts& a, const OperationCounts& b) {
    return a.issued == b.issued && a.not_begun == b.not_begun && a.unfinished == b.unfinished;
  };
  Seen seen{counts()};
  for (int i = 0; i < kTries; ++i) {
    seen.oldest = find_oldest(seen.counts);
    seen.ended = find_ended(seen.counts);
    const OperationCounts now = counts();
    if (same(seen.counts, now)) break;
    seen.counts = now;
  }
  return seen;
}

// Reads the smallest number first, so that no difference is negative.
OperationCounts UnfinishedOperations::counts() const {
  const std::uint64_t ended = ended_.load(std::memory_order_acquire);
  const std::uint64_t begun = begun_.load(std::memory_order_acquire);
  const std::uint64_t issued = issued_.load(std::memory_order_acquire);
  return {issued, clamped(issued - begun), clamped(issued - ended)};
}

std::optional<UnfinishedOperations::Oldest> UnfinishedOperations::find_oldest(
    const OperationCounts& counts) const {
  if (counts.unfinished == 0) return std::nullopt;
  std::optional<Record::Words> first;
  bool begun = false;
  std::uint64_t described = 0;
  for (const Slot& slot : slots_) {
    const std::uint64_t state = slot.state.load(std::memory_order_acquire);
    if (state == 0) continue;
    const auto words = slot.record.read();
    if (!words || words->front() != state >> kSequenceShift) continue;
    if (words->front() >= counts.issued) continue;  // its issue is not counted yet
    ++described;
    if (first && first->front() < words->front()) continue;
    first = words;
    begun = (state & kBegun) != 0;
  }
  if (!first) return std::nullopt;
  Oldest oldest = oldest_of(*first, begun);
  // If some are not described, an older one may be among them. But all that are older have ended if
  // so many have ended: collectives end in their order. The order of messages does not matter.
  const bool is_sure = described >= counts.unfinished ||
                       first->front() == counts.issued - counts.unfinished ||
                       oldest.operation.kind != UnfinishedOperation::Kind::collective;
  if (!is_sure) return std::nullopt;
  return oldest;
}

/// Collectives end in their order, and a slot keeps its record until another operation takes it.
std::optional<EndedCollective> UnfinishedOperations::find_ended(
    const OperationCounts& counts) const {
  if (counts.unfinished >= counts.issued) return std::nullopt;
  const std::uint64_t sequence = counts.issued - counts.unfinished - 1;
  const auto words = slots_[sequence & (slots_.size() - 1)].record.read();
  if (!words || words->front() != sequence) return std::nullopt;
  Oldest described = oldest_of(*words, true);
  if (described.operation.kind != UnfinishedOperation::Kind::collective) return std::nullopt;
  return EndedCollective{.sequence = sequence,
                         .name = std::move(described.operation.name),
                         .arguments = std::move(described.operation.arguments)};
}

UnfinishedOperations::Oldest UnfinishedOperations::oldest_of(const Record::Words& words,
                                                             bool begun) {
  const auto [sequence, rest, count, tag, issued, timeout] = words;
  const ToldArguments told = unpacked({rest, count, tag});
  const bool names_peer = info_of(told.collective).message && told.rank != kAnyRank;
  const CollectiveCall::Clock::time_point since{Duration(static_cast<Duration::rep>(issued))};
  std::string text = text_of(told);
  text.resize(std::min(text.size(), limits::kOperationNameBytes));
  return {.collective = told.collective,
          .operation = {.kind = kind_of(told.collective),
                        .begun = begun,
                        .sequence = sequence,
                        .age = CollectiveCall::Clock::now() - since,
                        .peer = names_peer ? std::int64_t{told.rank} : -1,
                        .name = std::string(name_of(told.collective)),
                        .arguments = std::move(text)},
          .timeout = Duration(static_cast<Duration::rep>(timeout))};
}

}  // namespace c10dd::collectives
