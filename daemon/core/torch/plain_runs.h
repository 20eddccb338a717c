// SPDX-License-Identifier: Apache-2.0
// Tells apart the launches of stock PyTorch that use one job without naming a run. The first store
// request of a connection binds the connection to a run; see bind(). A run ends with its last bound
// connection. Only keys by which ranks tell their addresses (rank_keys.h) show that a launch has
// begun: without them the port is a store, whose clients come and go and find the keys of those
// before them. Pure: the caller passes the time, and carries out what a call returns. One object
// serves one job.
//
// The end of a connection must reach closed() before a later join reaches bind(), whichever loop
// has the connection: before it binds a join, the shell handles all ends that the kernel has. That
// is how a launch is told apart from the launch before it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/torch/rank_keys.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Returns whether a run has a name that only PlainRuns gives: `plain-N` or `rdzv-ID`.
bool is_plain_name(std::string_view run);

class PlainRuns {
 public:
  using Connection = std::uint64_t;

  /// The process at the other end of a connection.
  struct Peer {
    std::string address;
    std::uint64_t pid = 0;  ///< 0: unknown; then each connection counts as a process of its own
  };

  /// What the first store request of a connection tells about its run.
  struct First {
    enum class Kind : std::uint8_t {
      rendezvous,  ///< an agent of torchrun looks for the others of its rendezvous ID
      join,        ///< a rank is counted: it adds to the key init/
      other,
    };

    Kind kind = Kind::other;
    std::string run = {};  ///< of a rendezvous: the name of its run
  };
  static First first_request(const Request& request);

  /// An entry for the log. `what` is run_began, run_resumed, run_ended, launch_reopened,
  /// launch_split, rank_taken or world_sizes_differ.
  struct Note {
    std::string_view what;
    std::string run;
    std::string detail;
  };

  /// What the shell must carry out.
  struct Outcome {
    std::string run = {};                ///< of bind(): the run of the connection
    bool resumed = false;                ///< of bind(): this run had ended, and goes on
    bool refused = false;                ///< of set_key() and set_keys(): no key must be set
    std::vector<Connection> close = {};  ///< ascending; each counts as closed from now on
    std::string reason = {};             ///< why these connections are closed
    std::vector<std::string> ended = {};
    std::vector<Note> notes = {};
  };

  /// Binds a connection, which is not bound yet, to a run:
  ///   rendezvous  the run of the rendezvous ID
  ///   join        the run in which the process has a live joined connection; else the current run
  ///               if none of its joined connections has ended since a rank's key was set in it;
  ///               else a new run, current from then on
  ///   other       the run of the process's newest live connection; else the current run; else a
  ///               new run, current from then on
  /// A run in which no rank's key was set is current also after its last connection has ended,
  /// until retired() is called: see resting().
  Outcome bind(Connection connection, const Peer& peer, const First& first, TimePoint now);

  /// Notes that a bound connection has sent a join after its first request.
  void joined(Connection connection);

  /// Notes that a connection has ended. Has no effect if it is not bound, or counts as closed.
  Outcome closed(Connection connection);

  /// Returns the current run if it has ended, and goes on with the next connection; else nothing.
  std::string resting() const { return runs_.contains(current_) ? std::string() : current_; }
  /// Notes that the keys of a run that has ended are erased, so that it cannot go on.
  void retired(const std::string& run);

  /// A key that a request sets.
  struct KeySet {
    std::string key;
    std::size_t value_bytes = 0;
  };

  /// Decides whether a bound connection may set a key. A rank's key (rank_keys.h) that a live
  /// connection of another process has set is not set again: the connection is closed. All
  /// connections of the run are closed if the run is younger than kYoung, or if `blocked` says that
  /// a request of the run waits in the store, because its ranks may wait for a stranger.
  Outcome set_key(Connection connection, const KeySet& key, bool blocked, TimePoint now);

  /// Does the same for the keys of one request, which is refused as a whole.
  Outcome set_keys(Connection connection, const std::vector<KeySet>& keys, bool blocked,
                   TimePoint now);

  /// Ends a run: closes all its connections, and no other connection resumes it. Returns nothing
  /// if the run is unknown.
  std::optional<Outcome> end(const std::string& run, const std::string& why);

  struct Rank {
    std::uint32_t rank = 0;
    std::string key;
    Peer peer;
    Connection connection = 0;
  };
  struct Report {
    std::string run;
    TimePoint began;
    std::size_t connections = 0;
    std::size_t joined = 0;        ///< live connections that have joined
    std::vector<Rank> ranks = {};  ///< whose keys are set by live connections, in order of keys
    std::string refused = {};      ///< the newest refusal of a rank's key; empty: none
    std::string differing = {};    ///< which ranks tell which world size; empty: they tell one
  };
  std::vector<Report> reports() const;
  /// Returns the run of a bound connection; empty if it is not bound.
  std::string run_of(Connection connection) const;

  static constexpr Duration kYoung = std::chrono::minutes(1);
  static constexpr std::size_t kRankKeyBytes = 512;    // a longer key is not a rank's key
  static constexpr std::size_t kRanksNamed = 4;        // of those that tell one world size
  static constexpr std::size_t kProcessesLeft = 1024;  // that are remembered of a run
  static constexpr std::size_t kRankKeys = 1'048'576;  // of all runs; further keys are not watched

 private:
  using Process = std::pair<std::string, std::uint64_t>;

  struct Holder {
    Connection connection = 0;
    Peer peer;
    std::uint64_t world_size = 0;  // that the value tells; 0: it tells none
  };
  struct Run {
    TimePoint began;
    bool has_ranks = false;   // a rank's key was set
    bool join_ended = false;  // since then, one of its joined connections has ended
    std::size_t joined = 0;   // live connections that have joined
    std::set<Connection> connections = {};
    std::map<std::string, Holder, std::less<>> rank_keys = {};  // by whom each was set last
    std::set<Process> left = {};  // whose joined connections have ended, as join_ended counts them
    std::string differing = {};   // what the keys of ranks begin with that tell two world sizes
    std::string refused = {};
  };
  struct Bound {
    Peer peer;
    std::string run;
    std::uint64_t order = 0;  // how many connections were bound before it
    bool joined = false;
    std::set<std::string, std::less<>> rank_keys = {};  // that it has set
  };

  std::string choose(const Peer& peer, const First& first, Outcome& out);
  const Bound* newest_of(const Peer& peer, bool joined) const;
  std::string new_run();
  void hold_key(Run& run, Connection connection, const KeySet& set);
  static Note split(const Peer& peer, const std::string& run, const std::string& before,
                    const Run& left);
  static std::string world_sizes(const Run& run);
  void forget(Connection connection, std::string_view cause, Outcome& out);

  std::uint64_t runs_so_far_ = 0;
  std::string current_;  // name of a run, which may be resting; empty: there is none
  std::map<std::string, Run, std::less<>> runs_;
  std::map<Connection, Bound> connections_;
  std::uint64_t bound_so_far_ = 0;
  /// The live connections of each process whose pid is known, by Bound::order.
  std::map<Process, std::map<std::uint64_t, Connection>> processes_;
  std::size_t rank_keys_ = 0;  // sum over all runs
};

}  // namespace c10dd::core
