// SPDX-License-Identifier: Apache-2.0
// UnfinishedOperations: counts the operations of a group, and describes those that have not ended,
// for reports to the daemon. Costs the threads that run the operations no lock and no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/hooks.h"
#include "collectives/shared_record.h"
#include "protocol/activity_ops.h"

namespace c10dd::collectives {

/// The collectives of one group, or its sends and receives. Has a slot for each of the operations
/// that were issued last. If more than these have not ended, some are counted, but not described
/// before they have begun. Thread-safe.
class UnfinishedOperations {
 public:
  /// `slots`: a power of two.
  explicit UnfinishedOperations(std::size_t slots) : slots_(slots) {}

  /// Called once for each operation, in the order of the sequences, by one thread at a time.
  void issue(const CollectiveCall& call) noexcept;
  /// Called at most once for each operation, between the others.
  void begin(const CollectiveCall& call) noexcept;
  /// Called once for each operation. Returns how many have ended with it.
  std::uint64_t end(const CollectiveCall& call) noexcept;

  /// An operation that has not ended.
  struct Oldest {
    Collective collective = Collective::barrier;
    UnfinishedOperation operation;
    Duration timeout{0};
  };
  struct Seen {
    OperationCounts counts;
    /// The one with the lowest sequence; nothing if there is none, or if it is not described.
    std::optional<Oldest> oldest = {};
    /// The last collective that has ended; nothing if it is not described any more.
    std::optional<EndedCollective> ended = {};
  };
  /// Returns what is true at this moment. While operations come and go all the time, the two parts
  /// may be of different moments.
  Seen read() const;

 private:
  /// Describes one operation: its sequence, arguments, time of issue and time-out.
  static constexpr std::size_t kWords = 6;
  using Record = SharedRecord<kWords>;

  struct alignas(64) Slot {
    /// 0: of no operation; else its sequence and two bits, see the source.
    std::atomic<std::uint64_t> state = 0;
    Record record;
  };

  Slot& slot_of(std::uint64_t sequence) { return slots_[sequence & (slots_.size() - 1)]; }
  static void describe(Slot& slot, const CollectiveCall& call, bool begun) noexcept;
  OperationCounts counts() const;
  std::optional<Oldest> find_oldest(const OperationCounts& counts) const;
  std::optional<EndedCollective> find_ended(const OperationCounts& counts) const;
  static Oldest oldest_of(const Record::Words& words, bool begun);

  std::vector<Slot> slots_;
  // Apart, because different threads write them.
  alignas(64) std::atomic<std::uint64_t> issued_ = 0;
  alignas(64) std::atomic<std::uint64_t> begun_ = 0;  // or ended without it
  std::atomic<std::uint64_t> ended_ = 0;
};

}  // namespace c10dd::collectives
