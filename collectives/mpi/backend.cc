// SPDX-License-Identifier: Apache-2.0
// The MPI backend, built as the module libc10dd_mpi.so. A group has two communicators: one for
// collectives, and one for sends and receives.
#include <algorithm>
#include <boost/describe/class.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/backend.h"
#include "collectives/mpi/calls.h"
#include "collectives/mpi/lane.h"
#include "collectives/mpi/messages.h"
#include "collectives/mpi/runtime.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives::mpi {
namespace {

/// What a rank tells the others when the group is opened.
struct Identity {
  std::string failure;  ///< why this rank cannot use MPI, or empty
  int rank = 0;         ///< in MPI_COMM_WORLD
  int size = 1;
  std::string job;
  Code code = Code::unsupported;  ///< of `failure`
};
BOOST_DESCRIBE_STRUCT(Identity, (), (failure, rank, size, job, code))

Failure refused(const World& world, const std::string& why) {
  return failure(Code::invalid_argument, "mpi: process group \"{}\": {}", world.name, why);
}

/// Fails unless rank `rank` of the group, whose identity is the last, can be in one group with the
/// lower ranks.
Result<void> check_identity(const World& world, const Identity& own,
                            const std::vector<Identity>& theirs) {
  const Identity& last = theirs.back();
  const std::size_t rank = theirs.size() - 1;
  if (!last.failure.empty()) {
    return failure(last.code, "rank {}: {}", rank, last.failure);
  }
  if (static_cast<Rank>(own.size) < world.size) {
    return refused(world,
                   format("the group has {} ranks, but MPI has only {}: start the ranks with "
                          "\"mpirun -n {} PROGRAM\"",
                          world.size, own.size, world.size));
  }
  if (last.job != own.job || last.size != own.size) {
    return refused(
        world,
        format(
            "ranks {} and {} were not started by the same mpirun; start all ranks with one mpirun",
            world.rank, rank));
  }
  const auto twin = std::ranges::find(theirs, last.rank, &Identity::rank) - theirs.begin();
  if (static_cast<std::size_t>(twin) != rank) {
    return refused(world,
                   format("ranks {} and {} are the same MPI process: start each rank as its own "
                          "process, with one mpirun",
                          twin, rank));
  }
  // A group of all processes has MPI's ranks. Another group may have any.
  const bool is_everybody = world.members.empty() && static_cast<Rank>(own.size) == world.size;
  if (is_everybody && static_cast<std::size_t>(last.rank) != rank) {
    return refused(world,
                   format("rank {} is rank {} in MPI: unset C10DD_RANK, so that mpirun assigns "
                          "the ranks",
                          rank, last.rank));
  }
  return {};
}

/// Returns the ranks of the group's members in MPI_COMM_WORLD.
Result<std::vector<int>> mpi_ranks(const BackendSetup& setup, const Result<Runtime*>& runtime) {
  Identity own;
  if (runtime) {
    own.rank = (*runtime)->rank();
    own.size = (*runtime)->size();
    own.job = (*runtime)->job();
  } else {
    own.failure = runtime.error().detail;
    own.code = runtime.error().code;
  }
  const auto parts = all(setup, wire::encode(own));
  if (!parts) return parts.error();
  if (!runtime) return runtime.error();
  std::vector<Identity> identities;
  std::vector<int> ranks;
  for (const std::string& part : *parts) {
    auto one = wire::decode<Identity>(part);
    if (!one) return one.error();
    identities.push_back(std::move(*one));
    ranks.push_back(identities.back().rank);
    if (Result<void> good = check_identity(setup.world, own, identities); !good) {
      return good.error();
    }
  }
  return ranks;
}

/// A tag for MPI_Comm_create_group: groups that are opened at the same time by several threads need
/// different ones.
int tag_of(const World& world) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ world.generation;  // FNV-1a
  for (const char c : world.name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  constexpr std::uint64_t kTags = 16'384;  // any MPI has twice as many
  return static_cast<int>(hash % kTags) * 2;
}

MPI_Comm make_comm(const std::vector<int>& ranks, int tag) {
  MPI_Group everybody = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  require(MPI_Comm_group(MPI_COMM_WORLD, &everybody), "MPI_Comm_group");
  require(MPI_Group_incl(everybody, static_cast<int>(ranks.size()), ranks.data(), &members),
          "MPI_Group_incl");
  require(MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm), "MPI_Comm_create_group");
  MPI_Group_free(&members);
  MPI_Group_free(&everybody);
  require(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

/// The communicators of a group that is being opened.
struct Opening {
  std::mutex mutex;  // guards all members
  std::condition_variable changed;
  bool late = false;  // nobody waits any more
  std::optional<Result<std::pair<MPI_Comm, MPI_Comm>>> comms;
};

Result<std::pair<MPI_Comm, MPI_Comm>> make_comms(Runtime& runtime, const std::vector<int>& ranks,
                                                 const World& world) {
  if (!runtime.enter()) return failure(Code::closed, "mpi: MPI was finalized in this process");
  Result<std::pair<MPI_Comm, MPI_Comm>> result = std::pair(MPI_COMM_NULL, MPI_COMM_NULL);
  try {
    const int tag = tag_of(world);
    result->first = make_comm(ranks, tag);
    result->second = make_comm(ranks, tag + 1);
  } catch (const std::exception& error) {
    result = failure(Code::unavailable, "mpi: cannot open process group \"{}\": {}", world.name,
                     error.what());
  }
  runtime.leave();
  return result;
}

/// As make_comms(), on a thread of its own, because a rank that does not come blocks it for ever.
Result<std::pair<MPI_Comm, MPI_Comm>> make_comms_until(
    std::chrono::steady_clock::time_point deadline, Runtime& runtime, const std::vector<int>& ranks,
    const BackendSetup& setup) {
  const auto opening = std::make_shared<Opening>();
  std::thread([opening, &runtime, ranks, world = setup.world] {
    auto comms = make_comms(runtime, ranks, world);
    const std::lock_guard lock(opening->mutex);
    if (opening->late) runtime.return_abandoned();
    opening->comms = std::move(comms);
    opening->changed.notify_all();
  }).detach();
  std::unique_lock lock(opening->mutex);
  if (opening->changed.wait_until(lock, deadline, [&] { return opening->comms.has_value(); })) {
    return *opening->comms;
  }
  opening->late = true;
  runtime.abandon();
  return failure(Code::timed_out,
                 "mpi: opening process group \"{}\" timed out after {}: a rank did not respond; {}",
                 setup.world.name, human(setup.options.open_timeout), Runtime::kMustExit);
}

class MpiBackend final : public Backend {
 public:
  MpiBackend(Runtime& runtime, MPI_Comm collectives, MPI_Comm messages)
      : runtime_(runtime),
        lane_(std::make_shared<Lane>(runtime, collectives)),
        messages_(std::make_shared<Messages>(runtime, messages)) {
    // The failure of one ends the other, too.
    lane_->on_failure([other = std::weak_ptr(messages_)](const Failure& reason) {
      if (const auto kept = other.lock()) kept->fail(reason);
    });
    messages_->on_failure([other = std::weak_ptr(lane_)](const Failure& reason) {
      if (const auto kept = other.lock()) kept->fail(reason);
    });
  }

  ~MpiBackend() override {
    lane_->close();
    messages_->close();
  }

  void start(const Operation& operation, Completion& completion) override {
    if (info_of(operation.collective).message) return messages_->start(operation, completion);
    lane_->start(operation, completion);
  }

  void abort(const std::string& reason) override {
    const Failure aborted = failure(Code::aborted, "mpi group aborted: {}", reason);
    lane_->fail(aborted);
    messages_->fail(aborted);  // if the lane has failed, a callback of a message may be waiting
  }

  Traits traits() const override { return {.tells_begin = true}; }

  std::string describe() const override {
    return format("{}, rank {} of {} in MPI", runtime_.library(), runtime_.rank(), runtime_.size());
  }

 private:
  Runtime& runtime_;
  const std::shared_ptr<Lane> lane_;
  const std::shared_ptr<Messages> messages_;
};

Result<std::unique_ptr<Backend>> open_mpi(const BackendSetup& setup) {
  const auto deadline = std::chrono::steady_clock::now() + setup.options.open_timeout;
  const Result<Runtime*> runtime = Runtime::start();
  const auto ranks = mpi_ranks(setup, runtime);
  if (!ranks) return ranks.error();
  const auto comms = make_comms_until(deadline, **runtime, *ranks, setup);
  if (!comms) return comms.error();
  return std::unique_ptr<Backend>(
      std::make_unique<MpiBackend>(**runtime, comms->first, comms->second));
}

}  // namespace
}  // namespace c10dd::collectives::mpi

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_backend_module() {
  static const c10dd::collectives::BackendModule module = {.open =
                                                               &c10dd::collectives::mpi::open_mpi};
  return &module.head;
}
