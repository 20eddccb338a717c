// SPDX-License-Identifier: Apache-2.0
// A process's membership in a group. Shows the rank, the generation, the other members and the
// status of the group, and lets the process ask for the next generation. Created by
// Client::rendezvous(). Standard library only.
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

/// The fields from `min` to `grace` are the rules of the group and must be equal in all its
/// members. The field `rank` and all fields after it describe this process.
struct RendezvousOptions {
  std::string group = "world";  ///< name of the group; a job may have many
  std::uint32_t min = 1;        ///< a generation never forms with fewer members
  std::uint32_t max = 1;        ///< members beyond this number wait as spares
  /// Time that a group waits for more members after `min` members have joined.
  std::chrono::nanoseconds last_call = std::chrono::seconds(3);
  /// If true, each join is a vote for one step, as in torchft. A round of votes ends when all
  /// members of the last list have joined again. If one of them does not join, at least `min`
  /// members, and more than half of the living members, must join. The round then ends when all
  /// living members have joined, or after the time `last_call`. A round starts no new generation if
  /// the list of members is unchanged and the generation has not ended.
  bool quorum = false;
  /// A member that gives no sign of life for this time is lost. From 0.5 s to 10 min; 0 means the
  /// daemon's default, 2.5 s.
  std::chrono::nanoseconds ttl{0};
  /// A member whose connection has ended is lost if it does not reconnect within this time. At most
  /// 10 min; 0 means the daemon's default, 0.25 s.
  std::chrono::nanoseconds grace{0};

  /// Time-out of Client::rendezvous() and of each Membership::next().
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  /// Rank that this process must get. Either all members give a rank or none does. A rank requires
  /// that `min` equals `max`. If both equal the launcher's world size, -1 means the launcher's rank
  /// (Client::rank()). Otherwise -1 gives no rank, and the daemon assigns one.
  std::int64_t rank = -1;
  bool spare = false;            ///< gets a place only if too few other processes join
  std::int32_t local_rank = -1;  ///< rank of the process on its host; -1 if not known
  std::string device = {};
  std::string domain = {};                         ///< topology: a rack, a switch, an NVLink domain
  std::map<std::string, std::string> labels = {};  ///< at most 64 labels, together at most 4 KiB
  std::uint64_t step = 0;  ///< training step of this process; the other members can read it
};

/// One member in the list of a generation. The fields from `local_rank` to `step` come from the
/// member's RendezvousOptions, or from its last Membership::next().
struct Member {
  std::uint32_t rank = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;
  std::int64_t previous_rank = -1;  ///< rank in the previous generation; -1 if not a member of it
};

/// One agreed list of members, and the rank of this process in it.
struct Generation {
  std::uint64_t round = 0;     ///< number of the decision
  std::uint64_t number = 0;    ///< identifies the list of members; no other list has this number
  std::uint32_t rank = 0;      ///< rank of this process in the list
  std::uint32_t size = 0;      ///< number of members
  std::uint64_t digest = 0;    ///< hash of the list; equal for all members
  std::uint32_t failures = 0;  ///< how many generations of this group have ended by a failure
  std::string reason;          ///< why the generation formed, and why the members have these ranks
};

/// A request that some members leave the group. The request can have a deadline. The daemon
/// declares each of these members lost that is still in the group after the deadline.
struct DrainNotice {
  std::uint64_t number = 0;  ///< set by the daemon
  bool preempt = false;      ///< true for a preempt notice, false for a drain notice
  std::vector<std::uint32_t> ranks;
  std::chrono::nanoseconds left{0};  ///< time left when the notice was received; 0 for no deadline
  std::string reason;
};

/// The status of the group, as far as this process knows it.
struct GroupState {
  /// forming: the group waits for members. formed: it has a generation. broken: the generation has
  /// ended, because a member was lost, has left, has failed or asks for the next generation.
  /// finished: all members have finished.
  enum class Phase { forming, formed, broken, finished };

  Phase phase = Phase::formed;
  std::uint64_t round = 0;       ///< number of the newest decision
  std::uint64_t generation = 0;  ///< number of the newest generation
  /// Says why the generation formed or ended, or why this process is fenced. Names ranks and hosts.
  std::string reason;
  std::vector<std::uint32_t> lost;      ///< lost ranks of the generation, ascending
  std::vector<std::uint32_t> finished;  ///< ranks whose work is done
  std::vector<std::uint32_t> stalled;   ///< ranks that missed the limit they gave to progress()
  std::vector<Missing> missing;         ///< details of the first 64 lost or stalled ranks
  /// Number of newcomers that get a place when the members call next().
  std::uint32_t waiting = 0;
  std::vector<DrainNotice> notices;
  /// True if the daemon has not replied for so long that it may have declared this process lost.
  /// This process must then not act as a member until next() has returned. For example, it must not
  /// write checkpoints.
  bool fenced = false;

  /// Returns true if no more work is possible in the generation with this number.
  bool ended(std::uint64_t number) const {
    return fenced || generation != number || phase == Phase::broken || phase == Phase::forming;
  }
};

/// The membership of this process in one group. A call that needs the daemon blocks for at most 5
/// min, unless it has a time-out of its own. Such a call may throw c10dd::Error or a subclass. In a
/// process that was forked from the member's process, it throws Forked. Thread-safe.
class Membership {
 public:
  /// Returns the generation of the last successful next(), or of the rendezvous if there was no
  /// next(). Does not block.
  virtual Generation generation() const = 0;
  std::uint32_t rank() const { return generation().rank; }
  std::uint32_t size() const { return generation().size; }

  /// Returns the members, ordered by rank. The first call in each generation asks the daemon; later
  /// calls do not block. Throws StaleGeneration if the group has a newer generation.
  virtual std::vector<Member> members() = 0;

  /// Returns the newest status that this process knows. Does not block.
  virtual GroupState state() const = 0;

  /// Calls `listener` with the present status before on_change() returns, and again after each
  /// change, one call at a time. The later calls are made on a thread of the membership or on the
  /// thread that calls next(). The listener must not block. It is not called after the returned
  /// handle was destroyed: destroying the handle waits for a call that is running on another
  /// thread.
  virtual std::shared_ptr<void> on_change(std::function<void(const GroupState&)> listener) = 0;

  /// Joins the next generation and returns it. Blocks until this process has a place. If
  /// RendezvousOptions::quorum is false, ends the present generation. If `quorum` is true, votes in
  /// the next round; the present generation goes on if the list of members is unchanged. After
  /// RendezvousOptions::timeout, throws TimedOut, which names the missing members. Other members
  /// can read `step`. If two threads call next(), the second one waits for the first.
  virtual Generation next(std::uint64_t step = 0) = 0;

  /// Takes this process out of the group and ends the generation. The other members continue in the
  /// next generation. `detail` becomes part of GroupState::reason, unless the generation had ended
  /// before this call.
  virtual void leave(const std::string& detail) = 0;
  /// Takes this process out of the group because it has done its work. The generation goes on.
  virtual void finish(const std::string& detail = {}) = 0;
  /// Takes this process out of the group and ends the generation with a failure. Uses `detail` as
  /// leave() does. `generation` is the number of the failed generation; 0 means the newest. If the
  /// group has a newer generation, throws StaleGeneration, so that a late report does not end the
  /// newer one.
  virtual void fail(const std::string& detail, std::uint64_t generation = 0) = 0;

  /// Reports what this process is doing. With a limit, this process promises to report again within
  /// that time. If it does not, all members are notified that this process is stalled. Does not
  /// block.
  virtual void progress(const std::string& phase, std::uint64_t step,
                        std::chrono::nanoseconds limit = {}) = 0;

  /// Asks members to leave the group: the ranks in `notice` and, unless `host` is empty, all ranks
  /// on `host`. They must leave within notice.left (0: no deadline); a member that stays longer is
  /// taken out. All members are notified. Returns the number of the notice. Throws NotFound if the
  /// notice names no member, and QuotaExceeded if the group has 64 notices.
  virtual std::uint64_t notify(const DrainNotice& notice, const std::string& host = {}) = 0;
  /// Reports that this process has seen the notice with this number. Throws NotFound if there is no
  /// such notice, or if it does not name this process.
  virtual void acknowledge(std::uint64_t notice) = 0;

  /// barrier() and exchange() work as in Client, but only within the generation. Both throw Aborted
  /// at once if a participant is lost or the generation ends, and StaleGeneration if there is a
  /// newer generation. `participants` lists the ranks that take part, in ascending order; if the
  /// list is empty, all ranks take part. All participants must give the same list. A process that
  /// is not in the list gets InvalidArgument. exchange() overwrites the fields `rank`, `world_size`
  /// and `generation` of `options`. The field `root` is an index into `participants`, or a rank if
  /// `participants` is empty.
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
