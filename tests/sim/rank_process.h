// SPDX-License-Identifier: Apache-2.0
// One rank of a training job: a client of the daemon, and threads with a program each that compute
// and run collectives, sends and receives. The product's activity hook counts them, and the
// product's client core reports them. No tensor moves: a Fabric says when an operation ends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/core/activity.h"
#include "collectives/activity_hook.h"
#include "tests/sim/client.h"

namespace c10dd::sim {

/// A process group of the job. All ranks share one object.
struct SimGroup {
  std::uint64_t id = 0;
  std::string name;
  std::vector<Rank> ranks;  ///< of the job, by rank in the group

  bool has(Rank rank) const;
  Rank rank_of(Rank job_rank) const;
};

class RankProcess;

/// Ends an operation when all its ranks have issued it with equal arguments, and all of them live.
class Fabric {
 public:
  explicit Fabric(World& world) : world_(world) {}

  /// A rank takes part in an operation. `key` says which one, `print` which arguments it has,
  /// `parties` how many ranks it needs. `done` is called once, later, or never.
  void arrive(const std::string& key, const std::string& print, std::size_t parties,
              const std::shared_ptr<RankProcess>& rank, std::function<void()> done);
  /// From now on nothing ends.
  void hang() { hung_ = true; }

 private:
  struct Arrival {
    std::weak_ptr<RankProcess> rank;
    std::string print;
    std::function<void()> done;

    bool lives() const;
  };

  /// All have arrived. Waits while a process is paused, as a peer of a stopped process does.
  void end(const std::string& key);

  World& world_;
  std::map<std::string, std::vector<Arrival>> arrivals_;
  bool hung_ = false;
};

/// What a rank does next.
struct PlannedCall {
  const SimGroup* group = nullptr;
  Operation operation;
  Duration compute{0};  ///< before the operation is issued
  bool queued = false;  ///< the backend does not begin with it
  /// It ends at once on this rank, as on NCCL one that is smaller than that of the others.
  bool ends_alone = false;
};

class RankProcess final : public std::enable_shared_from_this<RankProcess> {
 public:
  /// Returns the next call of a thread, asked for after the one before has ended.
  using Program = std::function<PlannedCall(RankProcess&, std::size_t thread)>;

  RankProcess(World& world, Fabric& fabric, Records& records, std::shared_ptr<Client> client,
              Rank rank, Program program)
      : world_(world),
        fabric_(fabric),
        records_(records),
        client_(std::move(client)),
        rank_(rank),
        program_(std::move(program)) {}

  /// Opens the groups that have this rank, and runs the program of each thread from now on. A group
  /// is only one thread's.
  void run(const std::vector<SimGroup>& groups, std::size_t threads = 1);

  Client& client() { return *client_; }
  Rank rank() const { return rank_; }
  bool works() const { return !client_->dead() && !client_->paused(); }
  /// Since when all its threads have been in an operation; nothing while one computes.
  std::optional<TimePoint> in_operation_since() const;
  std::size_t calls() const { return calls_; }
  std::size_t calls_of(const SimGroup& group) const { return groups_.at(group.id).collectives; }
  std::size_t position = 0;  ///< in the program of one thread; for its use

  /// The sentence with which a group of this rank was given up, and when.
  const std::string& given_up() const { return given_up_; }
  TimePoint given_up_at() const { return given_up_at_; }

 private:
  struct Group {
    const SimGroup* of = nullptr;
    std::shared_ptr<collectives::ActivityHook> hook;
    std::uint64_t collectives = 0;
    std::uint64_t messages = 0;
    std::size_t thread = 0;  // that issues its operations
  };
  struct Thread {
    CollectiveCall call = {};  // the one that it is in
    std::optional<TimePoint> issued_at = {};
    std::uint64_t calls = 0;
  };

  client::ReadGroup read(std::uint64_t group) const;
  void next_call(std::size_t thread);
  void when_working(std::function<void()> what);
  void issue(std::size_t thread, PlannedCall planned);
  void ended(std::size_t thread, Group& group);
  void report();
  CollectiveCall::Clock::time_point clock() const;

  World& world_;
  Fabric& fabric_;
  Records& records_;
  const std::shared_ptr<Client> client_;
  const Rank rank_;
  const Program program_;
  std::map<std::uint64_t, Group> groups_;
  client::ActivityReports reports_;
  std::vector<Thread> threads_;
  std::size_t calls_ = 0;
  std::optional<std::size_t> asked_;  // index in records_.ops of the report without a reply
  std::uint64_t reported_in_ = 0;     // CoreStats::connects
  std::string given_up_;
  TimePoint given_up_at_;
};

}  // namespace c10dd::sim
