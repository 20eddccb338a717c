// SPDX-License-Identifier: Apache-2.0
// What a client process of the kill loop writes down: every call before it is made and after its
// answer, one line each with one write(2), so that the history survives its own SIGKILL.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "client/errors.h"

namespace c10dd::torture {

/// Time of all processes of this machine, in nanoseconds.
std::uint64_t now();

enum class What : std::uint8_t {
  set,          ///< input -> revision
  get,          ///< -> yes (found), value, revision
  exists,       ///< -> yes
  add,          ///< delta -> number
  append,       ///< input -> number (length)
  compare_set,  ///< expected, input -> yes (swapped), value
  remove,       ///< -> yes (existed)
  multi_set,    ///< input into every key of the group `key`
  multi_get,    ///< -> value, yes (all keys of the group had it)
  transfer,  ///< delta from bank a to b -> yes (applied), value (the two sums), number (the third)
  balance,   ///< -> yes (the two accounts are even), value
  push,      ///< input
  pop,       ///< -> yes (got one), value
  meet,      ///< barrier or exchange
};

struct Call {
  What what = What::get;
  unsigned worker = 0;   ///< number of the process; 0 is the conductor
  std::uint64_t id = 0;  ///< unique in its process
  std::string key;
  std::string input;
  std::string expected;
  std::int64_t delta = 0;
  std::uint64_t invoked = 0;
  std::uint64_t answered = 0;  ///< 0: never

  std::string error;  ///< of a call that failed
  std::string value;
  std::uint64_t revision = 0;
  std::int64_t number = 0;
  bool yes = false;

  bool good() const { return answered != 0 && error.empty(); }
  bool open() const { return answered == 0; }
};

/// A change that a watch showed.
struct Seen {
  unsigned worker = 0;
  std::uint64_t revision = 0;
  std::string key;
  std::string value;
};

/// What one process did in one round.
struct History {
  std::vector<Call> calls;
  std::vector<Seen> seen;           ///< in the order in which the watch showed them
  std::vector<std::string> flaws;   ///< that the process saw by itself
  std::uint64_t reissued = 0;       ///< calls that its clients sent again, since they exist
  std::uint64_t sessions_lost = 0;  ///< likewise
};

/// Writes a history. Thread-safe.
class Recorder {
 public:
  /// Throws when the file cannot be made.
  Recorder(const std::string& path, unsigned worker);
  ~Recorder();
  Recorder(const Recorder&) = delete;

  /// Makes a call: writes it down, runs `ask`, which fills in the answer, writes that down. False
  /// when it failed.
  template <class Ask>
  bool make(Call& call, Ask&& ask) {
    invoke(call);
    try {
      ask(call);
    } catch (const Error& e) {
      call.error = std::string(name_of(e.code())) + ": " + e.what();
    }
    answer(call);
    return call.error.empty();
  }

  void saw(const Seen& seen);
  void flaw(const std::string& text);
  void totals(std::uint64_t reissued, std::uint64_t sessions_lost);

 private:
  void invoke(Call& call);
  void answer(Call& call);
  void write(std::string line);

  const unsigned worker_;
  const int file_;
  std::atomic<std::uint64_t> next_id_ = 1;
};

/// Throws when the file is not what a Recorder writes; a last line without an end is left out.
History read_history(const std::string& path, unsigned worker);

/// One line for people.
std::string describe(const Call& call);

}  // namespace c10dd::torture
