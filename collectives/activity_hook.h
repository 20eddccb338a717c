// SPDX-License-Identifier: Apache-2.0
// ActivityHook: knows how far one process group has come on this rank, for reports to the daemon
// (client/core/activity.h). Costs an operation less than 0.1 us, no lock and no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "client/internal/activity_reporter.h"
#include "collectives/group_threads.h"
#include "collectives/hooks.h"
#include "collectives/shared_record.h"
#include "collectives/unfinished_operations.h"

namespace c10dd::collectives {

/// Watches the operations of one group from its first on. Thread-safe.
class ActivityHook final : public Hook {
 public:
  static constexpr std::size_t kCollectives = 256;  ///< slots, see UnfinishedOperations
  static constexpr std::size_t kMessages = 64;
  static constexpr std::size_t kMarks = 8;  ///< of each kind: those of the last 12 to 24 s
  /// Marks come at times between these, if enough collectives do.
  static constexpr Duration kMarksFast = std::chrono::milliseconds(1500);
  static constexpr Duration kMarksSlow = std::chrono::seconds(3);

  ActivityHook();

  void enqueued(const CollectiveCall& call) noexcept override;
  void begun(const CollectiveCall& call) noexcept override;
  void finished(const CollectiveCall& call) noexcept override;

  /// Returns how far the group has come. Does not block. The usual duration of an operation counts
  /// from when it is issued, as its age does.
  client::ReadGroup read() const;

 private:
  using Clock = CollectiveCall::Clock;
  using HashRecord = SharedRecord<2>;  ///< sequence, hash
  using TimeRecord = SharedRecord<3>;  ///< sequence, clock, time that was waited

  UnfinishedOperations& operations_of(const CollectiveCall& call) {
    return info_of(call.operation.collective).message ? messages_ : collectives_;
  }
  void add_to_hash(const Operation& operation) noexcept;
  void note_duration(const CollectiveCall& call) noexcept;
  void mark_time(std::uint64_t ended, Clock::time_point now) noexcept;
  bool is_mark(std::uint64_t sequence) const {
    return sequence % (std::uint64_t{1} << exponent_.load(std::memory_order_relaxed)) == 0;
  }

  UnfinishedOperations collectives_{kCollectives};
  UnfinishedOperations messages_{kMessages};
  std::array<std::atomic<Duration::rep>, std::size(kOperations)> usual_{};  // 0: not known
  GroupThreads threads_;
  std::array<HashRecord, kMarks> hash_marks_;
  std::array<TimeRecord, kMarks> time_marks_;

  // Only for the thread that issues a collective.
  std::uint64_t hash_;
  std::size_t next_hash_mark_ = 0;

  // Marks are at the multiples of this power of two.
  alignas(64) std::atomic<unsigned> exponent_ = 0;
  std::atomic<Duration::rep> waited_ = 0;
  std::atomic<Duration::rep> paced_at_ = 0;  // when the power was last right or changed
  std::atomic<bool> marking_ = false;        // a thread is in mark_time(), and has what follows
  std::uint64_t paced_sequence_ = 0;         // the same as a number of collectives
  std::size_t next_time_mark_ = 0;
};

}  // namespace c10dd::collectives
