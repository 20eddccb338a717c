// SPDX-License-Identifier: Apache-2.0
// A member's view of a group: its rank and generation now, who else is there, what changes, and
// the way into the next generation. Made by Client::rendezvous(). Thread-safe. Standard library
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10dd/errors.h>
#include <c10dd/exchange.h>

namespace c10dd {

class Client;

/// When a generation forms, and what this process says of itself. The first five are the group's:
/// all members give the same. Durations of 0 are the daemon's defaults.
struct RendezvousOptions {
  std::string group = "world";
  std::uint32_t min = 1;  ///< fewer members never form a generation
  std::uint32_t max = 1;  ///< more wait as spares
  std::chrono::nanoseconds last_call = std::chrono::seconds(3);  ///< for more, once min are there
  bool quorum = false;                ///< every join votes for one step, see RendezvousPolicy
  std::chrono::nanoseconds ttl{0};    ///< unheard of for this long is lost (2.5 s)
  std::chrono::nanoseconds grace{0};  ///< lost this long after its connection closed (0.25 s)

  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  ///< of one join
  /// That it must get: then all members must say, and min is max. -1: the launcher's
  /// (Client::rank()) if min and max are its world size; else the daemon assigns one.
  std::int64_t rank = -1;
  bool spare = false;  ///< takes a place only when somebody is lost
  std::int32_t local_rank = -1;
  std::string device = {};
  std::string domain = {};  ///< topology: a rack, a switch, an NVLink domain
  std::map<std::string, std::string> labels = {};
  std::uint64_t step = 0;  ///< of its training; the others can read it
};

struct Member {
  std::uint32_t rank = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;
  std::int64_t previous_rank = -1;
};

/// One agreed list of members and this process's place in it.
struct Generation {
  std::uint64_t round = 0;
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t digest = 0;    ///< of who has which rank; equal for every member
  std::uint32_t failures = 0;  ///< generations of this group that ended by a failure so far
  std::string reason;          ///< why the ranks are what they are
};

/// Somebody, perhaps this process, is asked to leave in good order.
struct DrainNotice {
  std::uint64_t number = 0;
  bool preempt = false;
  std::vector<std::uint32_t> ranks;
  std::chrono::nanoseconds left{0};  ///< when it was heard; 0: no deadline
  std::string reason;
};

/// How the group stands, as far as this process has heard.
struct GroupState {
  enum class Phase { forming, formed, broken, finished };

  Phase phase = Phase::formed;
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::string reason;  ///< when it is not formed: names ranks, hosts and the cause
  std::vector<std::uint32_t> lost;
  std::vector<std::uint32_t> finished;
  std::vector<std::uint32_t> stalled;
  std::vector<Missing> missing;  ///< what the daemon knows of the first that are lost or stalled
  std::uint32_t waiting = 0;     ///< newcomers; they get in when the members call next()
  std::vector<DrainNotice> notices;
  /// The daemon has not been heard for so long that it may have given this process up. It must not
  /// act as a member any more (write checkpoints, for one) before next().
  bool fenced = false;

  /// Whether the generation of that number can no longer be worked in.
  bool ended(std::uint64_t number) const {
    return fenced || generation != number || phase == Phase::broken || phase == Phase::forming;
  }
};

class Membership {
 public:
  /// What the newest next() (or the rendezvous) has agreed on.
  virtual Generation generation() const = 0;
  std::uint32_t rank() const { return generation().rank; }
  std::uint32_t size() const { return generation().size; }

  /// By rank; fetched in pages on the first call of each generation. Throws Error with
  /// stale_generation when there is a newer one.
  virtual std::vector<Member> members() = 0;

  virtual GroupState state() const = 0;

  /// Called on a thread of the membership after every change, and at once with the state now;
  /// never after the returned handle is gone. It must not block.
  virtual std::shared_ptr<void> on_change(std::function<void(const GroupState&)> listener) = 0;

  /// Gives the current generation up and blocks until this process has a place in the next one;
  /// `step` is told to the others. Throws TimedOut naming who is missing.
  virtual Generation next(std::uint64_t step = 0) = 0;

  /// Out of the group. leave: the others go on without; finish: the work is done, nobody is
  /// disturbed; fail: the generation has failed, `detail` becomes its cause unless there is one.
  /// With its number, `fail` throws StaleGeneration if there is a newer one: a failure that is told
  /// on another thread, while next() goes on, ends no generation that it is not about.
  virtual void leave(const std::string& detail) = 0;
  virtual void finish(const std::string& detail = {}) = 0;
  virtual void fail(const std::string& detail, std::uint64_t generation = 0) = 0;

  /// What this process is doing. With a limit it promises the next report within it; if it breaks
  /// the promise, everybody is told that it is stalled. Does not block, is not repeated.
  virtual void progress(const std::string& phase, std::uint64_t step,
                        std::chrono::nanoseconds limit = {}) = 0;

  /// Asks ranks, and all ranks of `host` unless it is empty, to leave within `deadline` (0: no
  /// end). The notice's number.
  virtual std::uint64_t notify(const DrainNotice& notice, const std::string& host = {}) = 0;
  virtual void acknowledge(std::uint64_t notice) = 0;

  /// As Client::barrier and exchange, but bound to the generation: Aborted at once when a
  /// participant is lost, Error with stale_generation when there is a newer one. participants:
  /// ranks, ascending, the same for all of them; empty: everybody. ExchangeOptions::rank,
  /// world_size and generation are filled in here; `root` counts among the participants.
  virtual void barrier(const std::string& name,
                       std::chrono::nanoseconds timeout = std::chrono::seconds(300),
                       std::vector<std::uint32_t> participants = {}) = 0;
  virtual std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                            ExchangeOptions options = {},
                                            std::vector<std::uint32_t> participants = {}) = 0;

  virtual const std::string& group() const = 0;
  virtual const std::shared_ptr<Client>& client() const = 0;

  /// Leaves, if it has not.
  virtual ~Membership() = default;
};

}  // namespace c10dd
