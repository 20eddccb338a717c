// SPDX-License-Identifier: Apache-2.0
// FlightRecord: what one process has recorded of its newest collectives, in PyTorch's format 2.x
// (torch/csrc/distributed/c10d/FlightRecorder.hpp), as a pickle or as JSON. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/error.h"

namespace c10dd::ctl {

/// A collective. Those that were coalesced count as one.
struct FlightOperation {
  enum class State : std::uint8_t {
    issued,
    started,
    given_up,  ///< it has not completed in time
    ended,     ///< it is over, in one way or another
    completed,
  };

  std::uint64_t sequence = 0;  ///< in its group
  std::uint32_t call = 0;      ///< place in FlightRecord::calls
  std::uint32_t line = 0;      ///< place in FlightRecord::lines; 0: not known
  State state = State::issued;
  bool begun = false;        ///< it is recorded that it has started
  std::int64_t created = 0;  ///< ns since 1970

  bool is_over() const { return state >= State::ended; }
};

/// What was issued, and how two ranks compare it.
struct FlightCall {
  std::string name;      ///< "all_reduce"
  std::string text;      ///< "all_reduce of 4 float32"; equal on all ranks that issue the same
  bool for_all = false;  ///< no rank ends it before all have issued it
};

/// A send or recv that is not over.
struct FlightMessage {
  bool receives = false;
  std::uint64_t sequence = 0;
  std::size_t peer = 0;  ///< place among the ranks of the group, in ascending order
  std::int64_t created = 0;
};

/// What a process knows of one of its groups.
struct FlightGroup {
  std::string name;              ///< unique in the job, but that several lists of ranks may have it
  std::string description = {};  ///< what the group is for; may be empty
  std::vector<std::uint32_t> ranks = {};  ///< ascending; empty: not recorded
  std::string identity = {};  ///< a random number that its ranks share; empty: not recorded
  std::int64_t number = -1;   ///< in the order in which the process has made its groups
  /// Sequence of the newest collective that the process has issued, also if its operation is no
  /// longer in the record. -1: only the operations tell.
  std::int64_t issued = -1;
  std::vector<FlightOperation> operations = {};  ///< ascending by sequence, each one once
  std::vector<FlightMessage> messages = {};

  /// Returns whether it has all ranks of the job.
  bool is_default() const { return description == "default_pg"; }
};

/// A group of which the record has neither name nor operations.
struct FlightUnnamed {
  std::int64_t number = -1;  ///< FlightGroup::number
  std::int64_t issued = -1;  ///< FlightGroup::issued
};

struct FlightRecord {
  std::vector<FlightGroup> groups;  ///< by name
  std::vector<FlightUnnamed> unnamed = {};
  /// How many ranks the newest group of PyTorch's Gloo has. Gloo records groups without their
  /// names, and numbers the ranks inside of each group, so who they are is not known. 0: not
  /// recorded.
  std::size_t newest_size = 0;
  /// It has only the newest operations of its process, and nothing tells in which groups the others
  /// were.
  bool lost_older = false;
  std::vector<std::string> odd = {};  ///< what of it was left out, and why; a clause each
  std::vector<FlightCall> calls = {};
  std::vector<std::string> lines = {};  ///< of the trainer's program: "train.py:25"
  /// When the oldest operation that is not over was issued, and its group, of the two groups in
  /// which that was first.
  std::vector<std::pair<std::int64_t, std::string>> oldest = {};
  std::int64_t newest = 0;  ///< when the newest operation was issued, ns since 1970

  // Only records of c10dd have these.
  std::optional<std::uint32_t> rank = {};
  std::string job = {};
  std::string host = {};
  std::uint64_t pid = 0;
  std::int64_t written = 0;  ///< ns since 1970
};

/// Leaves out the ranks of a group if they cannot be read. Fails with invalid_argument; the text
/// does not name the file.
Result<FlightRecord> read_flight_record(std::string_view bytes);

}  // namespace c10dd::ctl
