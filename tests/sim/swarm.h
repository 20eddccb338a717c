// SPDX-License-Identifier: Apache-2.0
// What one seed may do: each seed enables a random half of the faults and of the operations, so
// that rare combinations come up and a fault that hides others is sometimes absent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/format.h"
#include "protocol/ops.h"
#include "tests/sim/random.h"

namespace c10dd::sim {

/// The kinds of requests that a client may send.
enum class Work : std::uint8_t {
  set,
  get,
  add,
  compare_set,
  append,
  remove,
  check,
  multi_set,
  multi_get,
  list,
  count,
  remove_prefix,
  transact,
  wait,
  ttl,
  ephemeral,
  push,
  pop,
  length,
  watch,
  barrier,
  exchange,
};
inline constexpr std::size_t kWorks = static_cast<std::size_t>(Work::exchange) + 1;

enum class Fault : std::uint8_t {
  kill,          ///< the daemon's process dies; its sockets are reset
  power_cut,     ///< as kill, but the sockets are not reset
  disk_short,    ///< the disk of the state has little room, or none, for a while
  drain,         ///< SIGTERM: the daemon refuses connections, sends held replies, and ends
  pause,         ///< the daemon stops for a while
  disk_error,    ///< a commit fails, with an unknown outcome
  disk_stall,    ///< a commit takes seconds
  takeover,      ///< another daemon claims the jobs of a shared engine; the first one continues
  reset,         ///< a connection is reset
  cut,           ///< bytes of one direction stop, for a while or until the end
  partition,     ///< a client cannot reach the daemon for a while
  refuse,        ///< connections are refused for a while
  client_death,  ///< a client's process dies; another one starts
  client_pause,
  client_leave,  ///< a client says goodbye in the middle of its calls; another one starts
};
inline constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::client_leave) + 1;
const char* name_of(Fault fault);

struct Swarm {
  std::vector<Fault> faults;
  std::vector<Work> works;
  unsigned clients = 2;
  unsigned jobs = 1;
  unsigned shards = 1;       ///< of the daemon
  unsigned late = 10;        ///< percent of the calls posted between its loops that are late
  unsigned outstanding = 1;  ///< calls of one client at a time
  unsigned keys = 3;         ///< of each family
  Duration busy{0};          ///< how long clients send new requests, and faults happen
  Duration think{0};         ///< at most, between two calls
  Duration fault_every{0};
  Duration session_expiry{0};
  Duration run_grace = std::chrono::hours(1000);
  Duration disk_most{0};  ///< the longest ordinary commit
  Duration net_most{0};   ///< the longest ordinary delay of bytes
  bool fragments = false;
  bool drift = false;    ///< clocks run a little fast or slow
  bool shared = false;   ///< the engine is shared: reads need confirmation
  unsigned daemons = 1;  ///< more than one: they form a fleet on the shared engine
  Duration lease = std::chrono::seconds(2);  ///< of the fleet
  bool rollback = false;                     ///< at the end the disk loses durable rows
  bool loses = false;                        ///< at the end the server of the fleet loses changes
  std::size_t history = 0;  ///< how many changes are kept for watches; 0: the default
  std::optional<RendezvousPolicy>
      group_policy;         ///< of the group that the clients of a job form, if any
  bool spares = false;      ///< some clients are spares
  bool visits = false;      ///< a run is retired and created again, many times
  bool relaunch = false;    ///< jobs start again as a whole, under the same names
  bool strangers = false;   ///< strangers change the directory of the fleet all the time
  bool untroubled = false;  ///< nothing happens by which the lease of a daemon may end
  Duration slow_load{0};    ///< at most, between two pieces of a job that is loaded

  bool has(Fault fault) const;
  bool fleet() const { return daemons > 1; }
};

/// Returns the address of a daemon by its place in the fleet.
inline std::string address_of(unsigned place) { return format("daemon{}:1", place); }

Swarm choose_swarm(Random& random);

/// Makes the daemons of some seeds a fleet.
void choose_fleet(Swarm& swarm, Random& random);
/// Makes the loads of some seeds take seconds. Their members see no other trouble than the death of
/// daemons, so none of them may fence itself.
void choose_slow_loads(Swarm& swarm, Random& random);
/// Kills the daemons of some seeds more often than the last call of their groups takes. Nothing
/// else happens but the death of clients.
void choose_short_lives(Swarm& swarm, Random& random);
/// Lets strangers come to some fleets, half of which have no other trouble.
void choose_strangers(Swarm& swarm, Random& random);

}  // namespace c10dd::sim
