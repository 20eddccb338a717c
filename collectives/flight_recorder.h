// SPDX-License-Identifier: Apache-2.0
// FlightRecorder: remembers the newest operations of this process, for after a hang: in PyTorch's
// format (see flight_record_format.h), which c10ddctl flight and PyTorch's torchfrtrace read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/internal/fork_guard.h"
#include "collectives/hooks.h"

namespace c10dd::collectives {

class FlightLog;

/// Records the operations of one group. All recorders of a process share the places for
/// FlightRing::kOperations operations. Costs an operation less than 0.1 us, no lock and no memory.
/// Does nothing if the variable C10DD_FLIGHT is "off".
///
/// A process that was forked begins without records. The operations of a group are forgotten when
/// its recorder is destroyed, so those of an ended generation are not taken for the present ones.
/// Thread-safe.
class FlightRecorder final : public Hook {
 public:
  /// `job`: may be empty.
  explicit FlightRecorder(std::string job);
  ~FlightRecorder() override;
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  void opened(const World& world) noexcept override;
  void enqueued(const CollectiveCall& call) noexcept override;
  void begun(const CollectiveCall& call) noexcept override { update(call); }
  void finished(const CollectiveCall& call) noexcept override { update(call); }

  /// Says which random number the ranks of the group share, so that records of two runs cannot be
  /// mixed up. At any time after opened().
  void identify(std::uint64_t process_group);

  /// Writes a file for each rank that this process has in a job: c10dd-flight-JOB-RANK in the
  /// folder C10DD_FLIGHT_DIR, or else in /tmp. Replaces the earlier one as a whole. `why` is
  /// written into it. Returns the paths of the files. If one cannot be written, says so on standard
  /// error, once in the life of the process. Does not throw.
  static std::vector<std::string> dump(const std::string& why) noexcept;

 private:
  /// The tickets of the newest operations, by sequence.
  template <std::size_t N>
  struct Tickets {
    std::array<std::atomic<std::uint64_t>, N> places{};
    std::atomic<std::uint64_t> issued = 0;

    void put(std::uint64_t sequence, std::uint64_t ticket) noexcept;
    std::uint64_t of(std::uint64_t sequence) const noexcept;  // 0: not known
  };

  void update(const CollectiveCall& call) noexcept;

  const std::string job_;
  const std::shared_ptr<FlightLog> log_;  // null: recording is off
  std::uint64_t group_ = 0;               // its number in the log; 0: the log has no room
  Tickets<256> collectives_;
  Tickets<64> messages_;
};

}  // namespace c10dd::collectives
