// SPDX-License-Identifier: Apache-2.0
// Compares the requests and replies of all processes of one round with each other and with the
// state at its end. Uses only the promises that the daemon makes to its clients.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/job_store.h"
#include "tests/history/keys.h"
#include "tests/torture/recorder.h"

namespace c10dd::torture {

using history::Fault;
using history::kFaultNames;
using history::kFaults;

struct Verdict {
  std::array<std::uint64_t, kFaults> counts{};
  std::vector<std::string> evidence;
  history::Searched searched;

  std::uint64_t of(Fault fault) const { return counts[static_cast<std::size_t>(fault)]; }
  std::uint64_t faults() const;
  void add(const Verdict& other);
};

struct RoundRecord {
  std::string prefix;
  std::map<std::uint32_t, History> histories;  ///< by process; 0 is the conductor's
  std::set<std::uint32_t> killed;              ///< processes
  std::map<std::string, Entry> state;          ///< final values of the keys with the prefix
  std::uint64_t ended = 0;                     ///< when that was
};

class Judge {
 public:
  explicit Judge(const RoundRecord& round);

  Verdict judge();
  /// Checks only that every call has ended; for a round that has not ended in time.
  Verdict unanswered();

 private:
  void calls_end();
  void keys();
  void whole();
  void bank();
  void queues();
  void watches();

  void fault(history::FoundFault finding);
  void faults(history::FoundFaults findings);
  Op last_get(const Bytes& key) const;
  std::int64_t number_at_end(const std::string& name) const;

  const RoundRecord& round_;
  history::Ops ops_;
  std::deque<Op> last_gets_;  // made up from the state
  Verdict verdict_;
  std::array<std::uint64_t, kFaults> shown_{};
};

}  // namespace c10dd::torture
