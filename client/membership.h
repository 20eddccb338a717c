// SPDX-License-Identifier: Apache-2.0
// A process's membership in a group: its rank and generation, the other members, the status of the
// group, and the way into the next generation. Client::rendezvous() makes one. Standard library
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

/// The rules of a group, which are the same for all its members (`min` to `grace`), and what this
/// process reports about itself.
struct RendezvousOptions {
  std::string group = "world";  ///< name of the group; a job may have many
  std::uint32_t min = 1;        ///< a generation never forms with fewer members
  std::uint32_t max = 1;        ///< members beyond this number wait as spares
  /// How long more members are waited for once `min` have joined.
  std::chrono::nanoseconds last_call = std::chrono::seconds(3);
  /// Each join is a vote for one step, as in torchft: a round closes when all members of the last
  /// one have asked again, or when at least `min` and more than half of the living members have
  /// asked and the others have had `last_call` to do so. The generation changes only if the list
  /// does.
  bool quorum = false;
  /// A member is lost after this time without a sign of life: 0.5 s to 10 min; 0: the daemon's
  /// default, 2.5 s.
  std::chrono::nanoseconds ttl{0};
  /// A member is lost this time after its connection has closed: at most 10 min; 0: the daemon's
  /// default, 0.25 s.
  std::chrono::nanoseconds grace{0};

  /// How long Client::rendezvous() and each Membership::next() wait for a generation.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  /// Rank that this process must get; then all members must give one, and `min` equals `max`. -1:
  /// the rank of the launcher (Client::rank()) if `min` and `max` are its world size, else the
  /// daemon assigns one.
  std::int64_t rank = -1;
  bool spare = false;            ///< takes a place only when another member is lost
  std::int32_t local_rank = -1;  ///< rank on its host; -1: not known
  std::string device = {};
  std::string domain = {};                         ///< topology: a rack, a switch, an NVLink domain
  std::map<std::string, std::string> labels = {};  ///< at most 64, together 4 KiB
  std::uint64_t step = 0;  ///< step of its training; the other members can read it
};

/// One member as the list of its generation has it. The fields from `local_rank` to `step` are
/// those of its RendezvousOptions, or of its last Membership::next().
struct Member {
  std::uint32_t rank = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;
  std::int64_t previous_rank = -1;  ///< in the generation before; -1: it was not a member
};

/// One agreed list of members, and the rank of this process in it.
struct Generation {
  std::uint64_t round = 0;     ///< number of the decision
  std::uint64_t number = 0;    ///< number of the list; never used for another list
  std::uint32_t rank = 0;      ///< of this process
  std::uint32_t size = 0;      ///< number of members
  std::uint64_t digest = 0;    ///< of the list; equal for all members
  std::uint32_t failures = 0;  ///< generations of this group that have ended by a failure so far
  std::string reason;          ///< how the generation came about, and why the ranks are as they are
};

/// Members that are asked to leave in good order.
struct DrainNotice {
  std::uint64_t number = 0;  ///< set by the daemon
  bool preempt = false;      ///< kind of the notice: preempt, else drain; passed on to the members
  std::vector<std::uint32_t> ranks;
  std::chrono::nanoseconds left{0};  ///< time to leave when the notice was received; 0: no deadline
  std::string reason;
};

/// The status of the group, as far as this process has heard of it.
struct GroupState {
  /// forming: waits for members. formed: has a generation. broken: the generation has ended, and a
  /// member was lost, has left or asks for the next one. finished: all members have finished.
  enum class Phase { forming, formed, broken, finished };

  Phase phase = Phase::formed;
  std::uint64_t round = 0;              ///< number of the newest decision
  std::uint64_t generation = 0;         ///< number of the newest generation
  std::string reason;                   ///< if not formed: the cause, with ranks and hosts
  std::vector<std::uint32_t> lost;      ///< ranks of the generation, ascending
  std::vector<std::uint32_t> finished;  ///< ranks whose work is done
  std::vector<std::uint32_t> stalled;   ///< ranks that broke the limit they gave to progress()
  std::vector<Missing> missing;         ///< details of the first 64 that are lost or stalled
  std::uint32_t waiting = 0;  ///< newcomers; they get a place when the members call next()
  std::vector<DrainNotice> notices;
  /// The daemon has not replied for so long that it may have declared this process lost. The
  /// process must not act as a member any more (it must not write checkpoints, for example) until
  /// next() has returned.
  bool fenced = false;

  /// Returns whether work in the generation of that number is no longer possible.
  bool ended(std::uint64_t number) const {
    return fenced || generation != number || phase == Phase::broken || phase == Phase::forming;
  }
};

/// This process as a member of one group. Calls that need the daemon block, at most 5 min unless
/// they have a time-out of their own, and throw c10dd::Error or a subclass. In a process that was
/// forked from the member's they throw Forked. Thread-safe.
class Membership {
 public:
  /// Returns the generation of the last next() (or of the rendezvous) that has returned. Does not
  /// block.
  virtual Generation generation() const = 0;
  std::uint32_t rank() const { return generation().rank; }
  std::uint32_t size() const { return generation().size; }

  /// Returns the members by rank. The first call in each generation asks the daemon, later ones do
  /// not block. Throws StaleGeneration if the group has a newer generation.
  virtual std::vector<Member> members() = 0;

  /// Returns the newest status that this process knows. Does not block.
  virtual GroupState state() const = 0;

  /// Calls `listener` with the present status before it returns, then after each change, on a
  /// thread of the membership or on the thread that calls next(); one call at a time. The listener
  /// must not block. It is not called after the returned handle is destroyed: destroying the handle
  /// waits for a call that is running on another thread.
  virtual std::shared_ptr<void> on_change(std::function<void(const GroupState&)> listener) = 0;

  /// Ends the present generation (a quorum only when the list changes) and blocks until this
  /// process has a place in the next decision, at most RendezvousOptions::timeout. The other
  /// members can read `step`. Throws TimedOut naming the missing members. One call at a time;
  /// another one waits.
  virtual Generation next(std::uint64_t step = 0) = 0;

  /// Take this process out of the group. leave: ends the generation; the other members continue in
  /// the next one. finish: the work of this process is done; the generation goes on. fail: ends the
  /// generation as failed, and `detail` becomes the cause unless there is one already. `generation`
  /// is the number of the generation that has failed, 0: whichever is the newest; fail throws
  /// StaleGeneration if there is a newer one, so that a late report does not end it.
  virtual void leave(const std::string& detail) = 0;
  virtual void finish(const std::string& detail = {}) = 0;
  virtual void fail(const std::string& detail, std::uint64_t generation = 0) = 0;

  /// Reports what this process is doing. With a limit it promises the next report within that time;
  /// if none arrives, all members are notified that it is stalled. Does not block.
  virtual void progress(const std::string& phase, std::uint64_t step,
                        std::chrono::nanoseconds limit = {}) = 0;

  /// Asks the ranks of the notice, and all ranks of `host` unless it is empty, to leave within
  /// notice.left (0: no deadline); a member that has not left by then is taken out. All members are
  /// notified. Returns the number of the notice. Throws NotFound if it names no member,
  /// QuotaExceeded if the group has 64 notices.
  virtual std::uint64_t notify(const DrainNotice& notice, const std::string& host = {}) = 0;
  /// Reports that this process has seen a notice that names it. Throws NotFound if none does.
  virtual void acknowledge(std::uint64_t notice) = 0;

  /// Wait and exchange data as Client::barrier() and Client::exchange() do, bound to the
  /// generation: throw Aborted at once if a participant is lost or the generation ends,
  /// StaleGeneration if there is a newer one. `participants` are the ranks that take part,
  /// ascending and the same for all of them; empty: all ranks. Throw InvalidArgument if this
  /// process is not among them. exchange() sets rank, world_size and generation of its options;
  /// `root` is an index into `participants`.
  virtual void barrier(const std::string& name,
                       std::chrono::nanoseconds timeout = std::chrono::seconds(300),
                       std::vector<std::uint32_t> participants = {}) = 0;
  virtual std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                            ExchangeOptions options = {},
                                            std::vector<std::uint32_t> participants = {}) = 0;

  /// Returns the name of the group.
  virtual const std::string& group() const = 0;
  virtual const std::shared_ptr<Client>& client() const = 0;

  /// Leaves the group, unless this process has left or finished. Blocks up to 1 s.
  virtual ~Membership() = default;
};

}  // namespace c10dd
