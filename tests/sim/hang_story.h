// SPDX-License-Identifier: Apache-2.0
// Seeded stories of a training job that goes on, or whose ranks hang because of one fault. The
// oracle: within kNamed of simulated time the diagnosis names the fault and its ranks, and it never
// names anything else, also while the daemon is killed or its job is taken over.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/diagnosis.h"
#include "tests/sim/daemon.h"
#include "tests/sim/rank_process.h"

namespace c10dd::sim {

class HangStory {
 public:
  /// After an operation that cannot end was issued, or a fault has come, whichever is later.
  static constexpr Duration kNamed = std::chrono::seconds(2);
  /// Of what does not hang, from the fault on.
  static constexpr Duration kSlowNamed = std::chrono::seconds(15);
  /// After that time ranks have given up a group that can never go on.
  static constexpr Duration kGivenUp = std::chrono::seconds(3);
  /// The same of a deadlock.
  static constexpr Duration kCircleGivenUp = std::chrono::seconds(8);

  explicit HangStory(std::uint64_t seed);
  ~HangStory();

  /// Tells the story. Returns what is wrong, if anything is.
  std::optional<std::string> tell();

 private:
  enum class Hang : std::uint8_t {
    none,
    checkpoint,  ///< a rank computes for some seconds, once
    lost,        ///< a process is killed
    vanished,    ///< its machine is gone
    paused,      ///< SIGSTOP
    absent,      ///< a rank does not come
    mismatch,    ///< a rank issues another operation, or other arguments
    crossed,     ///< a rank issues the operations of two groups in the other order
    unsent,      ///< a receive nobody sends to
    queued,      ///< the backend of a rank does not begin
    hung,        ///< an operation in which all ranks are does not end
    slow,        ///< a rank computes 20 % longer than the others
    diverged,    ///< a rank issues another reduction, and all go on
    threads,     ///< ranks wait for each other in two threads, until the late threads come
    brief,       ///< as `paused`, but for less than the ttl of a session
  };
  static const char* name_of(Hang hang);

  void choose(std::uint64_t seed);
  void choose_groups();
  void start_daemon(unsigned place);
  void start_ranks();
  PlannedCall next_call(RankProcess& rank, std::size_t thread);
  PlannedCall next_of_thread(const RankProcess& rank, std::size_t thread);
  void change(PlannedCall& planned);
  void trouble_later();
  bool goes_on() const { return hang_ == Hang::slow || hang_ == Hang::diverged; }
  /// Returns whether all goes on in the end, after some ranks have waited.
  bool passes() const {
    return hang_ == Hang::checkpoint || hang_ == Hang::threads || hang_ == Hang::brief;
  }
  void strike();
  bool is_effective() const;
  const core::Job* job() const;
  bool expects(const Diagnosis& found) const;
  bool may_say(const Diagnosis& found) const;
  void watch();
  void check_end();
  void wrong(const std::string& what);
  bool all_back() const;
  Duration limit() const;
  std::string text_of(const Diagnosis& found) const;

  const std::uint64_t seed_;
  World world_;
  Random random_;
  Swarm swarm_;
  Records records_;
  Disk disk_;
  Network network_;
  Fabric fabric_{world_};
  std::vector<std::shared_ptr<Daemon>> fleet_;
  std::vector<std::shared_ptr<Daemon>> graveyard_;
  std::vector<SimGroup> groups_;
  std::vector<std::shared_ptr<RankProcess>> ranks_;
  std::uint64_t daemons_ = 0;

  Hang hang_ = Hang::none;
  Rank victim_ = 0;
  Rank peer_ = 0;  ///< of a message, or in a group with the victim
  Duration strikes_at_{0};
  Duration lasts_{0};    ///< the whole story
  Duration step_{0};     ///< a rank computes about so long before each operation
  bool struck_ = false;  ///< the victim is about to do wrong, or has
  std::set<Rank> late_;  ///< of `threads`: whose late thread has been told to be late
  bool done_ = false;    ///< the victim has done it
  std::optional<TimePoint> effective_;  ///< since then somebody waits in vain
  TimePoint good_since_;                ///< the daemon has served all living ranks since then
  TimePoint loaded_since_;              ///< a daemon has served the job since then
  bool complete_ = false;               ///< all ranks have been back since then
  bool troubled_ = false;               ///< a daemon was killed, or a connection reset
  std::optional<TimePoint> named_;      ///< since then the diagnosis has been the expected one
  std::size_t seen_ = 0;                ///< in records_.diagnoses
};

}  // namespace c10dd::sim
