// SPDX-License-Identifier: Apache-2.0
// Holds what the processes of one round asked and were told against each other and against what is
// there at its end. Knows nothing of the daemon but what its clients may rely on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/job_store.h"
#include "tests/torture/history.h"

namespace c10dd::torture {

enum class Fault : std::uint8_t {
  lost,    ///< an acknowledged change is not there, or was not seen after it
  twice,   ///< a change was applied twice, an item was popped twice
  failed,  ///< a call ended in an error, or not at all
  order,   ///< answers that no order of the calls explains
  torn,    ///< half of an atomic change was seen
  watch,   ///< a watch left out, repeated or made up a change
  other,
};
inline constexpr std::size_t kFaults = 7;
inline constexpr std::string_view kFaultNames[kFaults] = {
    "lost", "applied twice", "failed calls", "out of order", "torn", "watch gaps", "other faults"};

struct Verdict {
  std::array<std::uint64_t, kFaults> counts{};
  std::vector<std::string> evidence;
  std::uint64_t keys_judged = 0;     ///< by the search for an order
  std::uint64_t keys_undecided = 0;  ///< likewise, without an end in time

  std::uint64_t of(Fault fault) const { return counts[static_cast<std::size_t>(fault)]; }
  std::uint64_t faults() const;
  void add(const Verdict& other);
};

struct RoundRecord {
  std::string prefix;
  std::map<unsigned, History> histories;         ///< by process; 0 is the conductor's
  std::set<unsigned> killed;                     ///< processes
  std::uint64_t first_kill = ~std::uint64_t{0};  ///< of a process, when
  std::map<std::string, Entry> state;            ///< keys with the prefix, when all had ended
  std::uint64_t ended = 0;                       ///< when that was
};

class Judge {
 public:
  explicit Judge(const RoundRecord& round);

  Verdict judge();
  /// Only whether every call has ended; for a round that did not.
  Verdict unanswered();

 private:
  using Calls = std::vector<const Call*>;
  /// A call and its place among the changes of something.
  struct Placed {
    const Call* call;
    std::uint64_t position;
    bool change;
  };

  void calls_end();
  void registers(const std::string& key, const Calls& calls);
  void counter(const std::string& key, const Calls& calls);
  void placed_in_order(const std::string& key, std::vector<Placed> placed);
  void log(const std::string& key, const Calls& calls);
  void chain(const std::string& key, const Calls& calls);
  void bank(const std::string& key, const Calls& calls);
  void any_key(const std::string& key, const Calls& calls);
  void group(const std::string& key, const Calls& calls);
  void queue(const std::string& key, const Calls& calls);
  void first_in_first_out(const std::string& key, const Calls& calls);
  void watch(unsigned worker, const History& history);

  void fault(Fault fault, const std::string& text, const Calls& calls = {},
             std::uint64_t count = 1);
  const Entry* at_end(const std::string& key) const;
  std::int64_t number_at_end(const std::string& key) const;

  const RoundRecord& round_;
  std::map<std::string, Calls> by_key_;
  Verdict verdict_;
  std::array<std::uint64_t, kFaults> shown_{};
};

}  // namespace c10dd::torture
