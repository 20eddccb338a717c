// SPDX-License-Identifier: Apache-2.0
// Knows the processes of a launch of PyTorch trainers, and their ranks. A client of TCPStore names
// no rank; the keys that it sets do (rank_keys.h). Notes these keys when they are set, so that
// nobody has to search for them. Remembers a process that has left until all others have left, too,
// or until another process joins. In memory only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "daemon/core/keys/key_space.h"
#include "daemon/core/sessions/sessions.h"
#include "daemon/core/torch/world_size.h"

namespace c10dd::core {

/// What the keys of a launch and their values tell.
struct LaunchTold {
  std::set<Rank> ranks = {};                     ///< of the job, whose keys are set
  std::set<Rank> nodes = {};                     ///< whose agents have set their keys
  bool trainers = false;                         ///< not all of these keys are of agents
  std::optional<std::uint64_t> world_size = {};  ///< WorldSize::found()
  WorldSize::Told differing = {};                ///< WorldSize::differing()
};

class LaunchRanks {
 public:
  /// A process that is connected or, if it was a rank, that has left.
  struct Process {
    std::string host;
    std::uint64_t pid = 0;                 ///< 0: not known; then each session counts as a process
    std::optional<Rank> rank = {};         ///< that of the first rank's key that it has set
    bool joined = false;                   ///< it was counted in init/, as each rank and agent is
    bool agent = false;                    ///< it is an agent of torchrun
    bool gave_up = false;                  ///< it has set exception_dump
    std::optional<Rank> gave_up_as = {};   ///< the rank in that key, if `rank` is not known
    std::set<SessionId> sessions = {};     ///< that are open
    Ending ending = Ending::disconnected;  ///< of the newest session that has ended
    TimePoint left_at = {};                ///< if it has left
    TimePoint dumped_at = {};              ///< if it has given up

    bool has_left() const { return sessions.empty(); }
    bool counts() const { return joined || rank; }
  };
  using ProcessId = std::tuple<std::string, std::uint64_t, SessionId>;

  /// Notes a session of a client of TCPStore.
  void opened(const SessionId& id, const Session& session);
  /// Notes that a session has ended.
  void ended(const SessionId& id, Ending ending, TimePoint now);

  /// Notes that a session has set a key. Returns true if its process has joined the launch, or has
  /// given up, by this key.
  bool key_set(std::string_view key, std::string_view value, const SessionId& by, TimePoint now);
  /// Notes a key that was set before the job was loaded.
  void key_restored(std::string_view key) { note_key(key); }
  void key_removed(std::string_view key);

  const std::map<ProcessId, Process>& processes() const { return processes_; }
  const Process* of_session(const SessionId& id) const;
  /// Returns the process that has this rank; null if it is not known.
  const Process* of_rank(Rank rank) const;
  /// Returns how many processes that count (Process::counts()) are connected, and have left.
  std::size_t here() const { return here_; }
  std::size_t gone() const { return left_.size(); }
  /// Returns whether a proxy serves some of the clients. Their sessions outlive their connections,
  /// so no event tells that a process has fallen silent, or does not come back.
  bool is_proxied() const { return !proxied_.empty(); }
  /// Returns when a process last began to count.
  TimePoint newest() const { return newest_; }

  /// Reads the noted keys if one has changed since the last call.
  const LaunchTold& told(const KeySpace& keys) const;

  /// Returns how many of the processes that have left are not in processes(), because kLeft others
  /// had left before.
  std::size_t forgotten() const { return forgotten_; }
  /// Returns how many keys are noted, which told() may have to read.
  std::size_t noted() const { return keys_.size(); }

  AuditResult audit(const Sessions& sessions) const;

  static constexpr std::size_t kKeyBytes = 512;                  // a longer key is not noted
  static constexpr std::size_t kAllKeyBytes = 16 * 1024 * 1024;  // further keys are not noted
  static constexpr std::size_t kLeft = 1'024;  // processes that have left; the first are kept

 private:
  using Entry = std::map<ProcessId, Process>::iterator;

  bool note_key(std::string_view key);
  void take_rank(Entry process, std::string_view key);
  static void note_dump(Process& process, std::string_view value, TimePoint now);
  void lose_rank(Entry process);
  void forget_left();

  std::map<ProcessId, Process> processes_;
  std::map<SessionId, Entry> sessions_;
  std::set<SessionId> proxied_;  // of sessions_, those that are not fleeting
  std::map<Rank, Entry> ranks_;
  std::set<ProcessId> left_;  // of processes_, those that have left
  std::size_t here_ = 0;
  TimePoint newest_;
  std::size_t forgotten_ = 0;
  std::set<Bytes, std::less<>> keys_;  // that tell a rank or the number of ranks
  std::size_t key_bytes_ = 0;          // of keys_
  mutable std::optional<LaunchTold> told_;
};

}  // namespace c10dd::core
