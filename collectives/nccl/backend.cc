// SPDX-License-Identifier: Apache-2.0
// The NCCL backend, built as the module libc10dd_nccl.so. A group has two communicators: one for
// collectives, and one for sends and receives.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/backend.h"
#include "collectives/nccl/cuda_copies.h"
#include "collectives/nccl/identity.h"
#include "collectives/nccl/lane.h"
#include "collectives/nccl/opening.h"
#include "collectives/nccl/types.h"
#include "protocol/format.h"

namespace c10dd::collectives::nccl {
namespace {

using Clock = Worker::Clock;

// Operations that may be on the way to the stream or on it. The lane puts only some of them there.
constexpr std::size_t kInFlight = 1024;

/// The options of the communicators of a group. NCCL reads them while it connects the ranks.
struct Settings {
  explicit Settings(const std::string& of, const char* part = "") : group(of), name(of + part) {
    config.comm_name = name.c_str();
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  const std::string group;
  const std::string name;  ///< of the communicator
  Config config;
};

/// Lets a thread wait for the end of a call of a lane.
class Ended final : public Completion {
 public:
  void complete(Result<void> result) noexcept override {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    changed_.notify_all();  // under the lock, because await() may destroy this object afterwards
  }
  void complete_message(Result<Received>) noexcept override {}
  void enqueued(std::shared_ptr<DeviceEnd>) noexcept override {}
  void begun() noexcept override {}
  Result<void> await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return result_.has_value(); });
    return *result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<void>> result_;
};

/// Splits the communicator of a lane. Called by all ranks of the lane. Returns null if `color` is
/// kNoColor. `name` is what the user has called, for errors.
Result<Comm> split(const Place& place, Lane& lane, const char* name, int color, int key,
                   const std::shared_ptr<Settings>& settings, Clock::time_point deadline) {
  const Result<void> allowed = Worker::require_other_thread("a process group cannot be split");
  if (!allowed) return allowed.error();
  const auto child = std::make_shared<Comm>(nullptr);
  Operation operation;
  operation.timeout = deadline - Clock::now();
  operation.deadline = deadline;
  Ended ended;
  lane.start_call(
      [=, library = place.library](Comm parent) -> Issued {
        return {library->api().split(parent, color, key, child.get(), &settings->config),
                "ncclCommSplit"};
      },
      name, operation, ended);
  if (const Result<void> result = ended.await(); !result) {
    return failure(result.error().code, "nccl: process group \"{}\" was not connected: {}",
                   settings->group, result.error().detail);
  }
  if (*child == nullptr) return nullptr;
  // The child may need more time than the parent.
  return open_comm(
      *place.library, *place.device,
      [child, settings](Comm* comm) {
        *comm = *child;
        return Issued{};
      },
      settings->group, deadline);
}

Result<std::shared_ptr<Lane>> make_lane(const Place& place, Comm comm, const World& world,
                                        const std::shared_ptr<Settings>& settings) {
  const Result<void*> stream = place.device->make_stream();
  if (!stream) {
    Retirement::instance().abort(
        {.library = place.library, .device = place.device, .comm = comm, .kept = settings});
    return stream.error();
  }
  return std::make_shared<Lane>(*place.library, *place.device, comm, *stream, world.rank,
                                world.size, settings);
}

class NcclBackend final : public Backend {
 public:
  NcclBackend(const Place& place, const std::shared_ptr<Lane>& collectives,
              const std::shared_ptr<Lane>& messages)
      : place_(place), collectives_(collectives), messages_(messages) {
    // The failure of one ends the other, too.
    const auto fails = [](const std::shared_ptr<Lane>& lane) {
      return [other = std::weak_ptr(lane)](const Failure& reason) {
        if (const auto kept = other.lock()) kept->fail(reason);
      };
    };
    collectives_->on_failure(fails(messages_));
    messages_->on_failure(fails(collectives_));
  }

  ~NcclBackend() override {
    collectives_->close();
    messages_->close();
  }

  Traits traits() const override { return {.in_flight = kInFlight, .tells_begin = true}; }

  bool supports(Collective collective, DType dtype, ReduceOp reduce, Device device) const override {
    if (device.kind == Device::Kind::cuda && device.index != place_.device->index()) return false;
    return !info_of(collective).reduces || op_of(reduce.kind, dtype).has_value();
  }

  std::string refuses(const Operation& message) const override {
    if (message.peer == kAnyRank) return "cannot receive from any rank: name one rank";
    const bool receives = message.collective == Collective::recv;
    if (message.tag == 0 || (receives && message.tag == kAnyTag)) return {};
    return format("does not support tags: use tag 0 instead of {}", message.tag);
  }

  bool starts_at_once(const Operation&) const override { return true; }

  void start(const Operation& operation, Completion& completion) override {
    const bool message = info_of(operation.collective).message;
    (message ? messages_ : collectives_)->start(operation, completion);
  }

  void abort(const std::string& reason) override {
    collectives_->fail(failure(Code::aborted, "nccl group aborted: {}", reason));
  }

  Result<std::shared_ptr<void>> allocate(std::size_t bytes, Device device) override {
    if (device.kind == Device::Kind::cpu) return Backend::allocate(bytes, device);
    if (device.index == place_.device->index()) return place_.device->allocate(bytes);
    return failure(Code::unsupported, "allocate: this rank of the group uses cuda:{}, not cuda:{}",
                   place_.device->index(), device.index);
  }

  bool splits(const GroupOptions& part) const override {
    return part.backend == "nccl" && (part.device < 0 || part.device == place_.device->index());
  }

  Result<std::unique_ptr<Backend>> split(const BackendSetup* part, int color, int key,
                                         Clock::time_point deadline) override;

  std::string describe() const override {
    return format("NCCL {} on cuda:{} ({}, {})", place_.library->version_text(),
                  place_.device->index(), place_.device->name(), place_.device->bus_id());
  }

 private:
  const Place place_;
  const std::shared_ptr<Lane> collectives_;
  const std::shared_ptr<Lane> messages_;
};

/// Makes the backend of a group whose communicator for collectives is `comm`.
Result<std::unique_ptr<Backend>> make_backend(const Place& place, Comm comm, const World& world,
                                              const std::shared_ptr<Settings>& first,
                                              Clock::time_point deadline) {
  const auto collectives = make_lane(place, comm, world, first);
  if (!collectives) return collectives.error();
  const auto settings = std::make_shared<Settings>(world.name, " messages");
  const Result<Comm> second =
      split(place, **collectives, "open", 0, static_cast<int>(world.rank), settings, deadline);
  if (!second) {
    (*collectives)->fail(second.error());
    return second.error();
  }
  const auto messages = make_lane(place, *second, world, settings);
  if (!messages) {
    (*collectives)->fail(messages.error());
    return messages.error();
  }
  return std::unique_ptr<Backend>(std::make_unique<NcclBackend>(place, *collectives, *messages));
}

Result<std::unique_ptr<Backend>> NcclBackend::split(const BackendSetup* part, int color, int key,
                                                    Clock::time_point deadline) {
  if (part == nullptr) {
    const auto settings = std::make_shared<Settings>("none");
    const Result<Comm> none =
        nccl::split(place_, *collectives_, "split", kNoColor, key, settings, deadline);
    if (!none) return none.error();
    return std::unique_ptr<Backend>();
  }
  const Clock::duration limit = deadline - Clock::now();  // of each step
  const auto identities = exchange_identities(*part, place_, false);
  deadline = Clock::now() + limit;
  if (!identities) {
    // The ranks of the other parts wait for all.
    const auto settings = std::make_shared<Settings>("none");
    static_cast<void>(
        nccl::split(place_, *collectives_, "split", kNoColor, key, settings, deadline));
    return identities.error();
  }
  const auto settings = std::make_shared<Settings>(part->world.name);
  const Result<Comm> comm =
      nccl::split(place_, *collectives_, "split", color, key, settings, deadline);
  if (!comm) return comm.error();
  return make_backend(place_, *comm, part->world, settings, deadline);
}

/// Returns the ids of all blocks.
Result<std::vector<UniqueId>> ids_of(const std::vector<Identity>& identities) {
  const auto size = static_cast<Rank>(identities.size());
  std::vector<UniqueId> ids;
  for (Rank block = 0; block < id_count(size); ++block) {
    const Rank rank = first_of_block(block, size);
    const std::string& id = identities[rank].id;
    if (id.size() != sizeof(UniqueId)) {
      return failure(Code::size_mismatch,
                     "nccl: rank {} sent a unique id of {} bytes instead of {}", rank, id.size(),
                     sizeof(UniqueId));
    }
    id.copy(ids.emplace_back().bytes, sizeof(UniqueId));
  }
  return ids;
}

Result<std::unique_ptr<Backend>> open_nccl(const BackendSetup& setup) {
  const World& world = setup.world;
  const Result<Place> place = find_place(setup);
  const auto identities = exchange_identities(setup, place, true);
  if (!identities) return identities.error();
  const Clock::time_point deadline = Clock::now() + setup.options.open_timeout;
  const Result<void> free = Retirement::instance().await_free(*place->device, deadline);
  if (!free) return free.error();
  auto found = ids_of(*identities);
  if (!found) return found.error();
  // NCCL reads these until the ranks are connected.
  const auto ids = std::make_shared<std::vector<UniqueId>>(std::move(*found));
  const auto settings = std::make_shared<Settings>(world.name);
  const auto begin = [ids, settings, library = place->library, size = static_cast<int>(world.size),
                      rank = static_cast<int>(world.rank)](Comm* comm) -> Issued {
    return {library->api().init_rank_scalable(comm, size, rank, static_cast<int>(ids->size()),
                                              ids->data(), &settings->config),
            "ncclCommInitRankScalable"};
  };
  const Result<Comm> comm = open_comm(*place->library, *place->device, begin, world.name, deadline);
  if (!comm) return comm.error();
  return make_backend(*place, *comm, world, settings, deadline);
}

}  // namespace
}  // namespace c10dd::collectives::nccl

extern "C" __attribute__((visibility("default"))) const c10dd::client::ModuleHead*
c10dd_backend_module() {
  static const c10dd::collectives::BackendModule module = {
      .open = &c10dd::collectives::nccl::open_nccl,
      .device_copies = &c10dd::collectives::nccl::cuda_copies};
  return &module.head;
}
