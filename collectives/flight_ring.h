// SPDX-License-Identifier: Apache-2.0
// FlightRing: the newest operations of all process groups of a process.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/agreement.h"
#include "collectives/hooks.h"
#include "collectives/shared_record.h"

namespace c10dd::collectives {

/// What was recorded of an operation.
struct FlownOperation {
  std::uint64_t ticket = 0;  ///< counts the operations of the process, from 1
  std::uint64_t group = 0;   ///< see FlightRing::issue()
  std::uint64_t sequence = 0;
  std::uint64_t others = 0;  ///< of a collective: messages issued before it, and the reverse
  ToldArguments arguments = {};
  std::uint64_t inputs = 0;  ///< elements of all tensors
  std::uint64_t outputs = 0;
  Duration timeout{0};
  // Zero until it has happened.
  CollectiveCall::Clock::time_point issued{};
  CollectiveCall::Clock::time_point begun{};
  CollectiveCall::Clock::time_point finished{};
  Code outcome = Code::ok;

  bool is_message() const { return info_of(arguments.collective).message; }
};

/// Does not block, and takes no memory for an operation. If two threads meet in one place, which
/// needs kOperations operations at once, what one of them says is lost. Thread-safe.
class FlightRing {
 public:
  static constexpr std::size_t kOperations = 4096;

  /// Records that an operation of group number `group` was issued. Returns its ticket.
  std::uint64_t issue(std::uint64_t group, const CollectiveCall& call,
                      std::uint64_t others) noexcept;
  /// Records when it has begun and ended. Has no effect if it is not among the newest any more.
  void update(std::uint64_t ticket, const CollectiveCall& call) noexcept;

  /// Returns the ticket of an operation; nothing if it is not among the newest. Looks at all.
  std::optional<std::uint64_t> find(std::uint64_t group, std::uint64_t sequence,
                                    bool message) const noexcept;

  /// Returns the newest operations, the oldest first.
  std::vector<FlownOperation> read() const;

 private:
  using Issued = SharedRecord<11>;
  using Ended = SharedRecord<4>;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> ticket = 0;
    std::atomic<std::uint64_t> key = 0;  // of the operation, see key_of(); so that find() is fast
    Issued issued;
    Ended ended;                          // of the ticket that is its first number
    std::atomic<std::uint64_t> lost = 0;  // the ticket whose end another thread kept from `ended`
  };

  /// Seldom equal for two operations.
  static std::uint64_t key_of(std::uint64_t group, std::uint64_t sequence, bool message) noexcept {
    constexpr int kSequenceBits = 40;
    return (group << kSequenceBits) + 2 * sequence + (message ? 1 : 0);
  }
  Slot& slot_of(std::uint64_t ticket) { return slots_[ticket % kOperations]; }
  static std::optional<FlownOperation> read(const Slot& slot);

  alignas(64) std::atomic<std::uint64_t> tickets_ = 0;
  std::array<Slot, kOperations> slots_;
};

}  // namespace c10dd::collectives
