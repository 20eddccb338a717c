// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/identity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/describe/class.hpp>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "client/internal/launch_environment.h"
#include "protocol/fields.h"
#include "protocol/format.h"

namespace c10dd::collectives::nccl {
namespace {

/// Names the host as NCCL does: by the variable NCCL_HOSTID, or by its name and boot.
std::string host_name() {
  const char* const chosen = std::getenv("NCCL_HOSTID");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(name.data()) + "/" + boot;
}

Failure refused(const World& world, const std::string& why) {
  return failure(Code::invalid_argument, "nccl: process group \"{}\": {}", world.name, why);
}

Result<int> choose_device(const BackendSetup& setup, int devices) {
  const World& world = setup.world;
  const auto missing = [&](const char* what, std::int64_t number) {
    return refused(world, format("{} is {}, but this process has {} GPUs, numbered from 0; check "
                                 "CUDA_VISIBLE_DEVICES",
                                 what, number, devices));
  };
  if (setup.options.device >= devices) return missing("GroupOptions::device", setup.options.device);
  if (setup.options.device >= 0) return setup.options.device;
  if (devices == 1) return 0;
  const auto launched = client::read_launch_environment(client::process_environment());
  if (launched && launched->local_rank >= devices) {
    return missing("the local rank", launched->local_rank);
  }
  if (launched && launched->local_rank >= 0) return static_cast<int>(launched->local_rank);
  const Rank job_rank =
      world.rank < world.members.size() ? world.members[world.rank].job_rank : world.rank;
  return static_cast<int>(job_rank % static_cast<Rank>(devices));
}

Result<Identity> identify(const BackendSetup& setup, const Place& place, bool needs_ids) {
  Identity own{
      .version = place.library->version(), .host = host_name(), .bus_id = place.device->bus_id()};
  const Rank size = setup.world.size;
  const Rank rank = setup.world.rank;
  bool is_first = false;
  for (Rank block = 0; block < id_count(size); ++block) {
    is_first = is_first || first_of_block(block, size) == rank;
  }
  if (!needs_ids || !is_first) return own;
  UniqueId id{};
  const Status status = place.library->api().unique_id(&id);
  if (status == Status::success) {
    own.id.assign(id.bytes, sizeof(id.bytes));
    return own;
  }
  return failure(Code::unavailable, "{}; check NCCL_SOCKET_IFNAME",
                 place.library->text_of("ncclGetUniqueId", status));
}

/// Fails unless the last of `theirs` can be in one group with the others.
Result<void> check(const World& world, const std::vector<Identity>& theirs) {
  const Identity& last = theirs.back();
  const std::size_t rank = theirs.size() - 1;
  if (!last.failure.empty()) {
    return failure(last.code, "rank {}: {}", rank, last.failure);
  }
  if (last.version != theirs.front().version) {
    return refused(world, format("rank 0 has NCCL version {}, but rank {} has {}; install the same "
                                 "version for all ranks",
                                 theirs.front().version, rank, last.version));
  }
  const auto same_gpu = [&](const Identity& other) {
    return other.host == last.host && other.bus_id == last.bus_id;
  };
  const auto twin =
      static_cast<std::size_t>(std::ranges::find_if(theirs, same_gpu) - theirs.begin());
  if (twin == rank) return {};
  return refused(world,
                 format("ranks {} and {} use the same GPU, {} of host {}; give each rank its "
                        "own GPU with CUDA_VISIBLE_DEVICES or GroupOptions::device",
                        twin, rank, last.bus_id, last.host));
}

}  // namespace

BOOST_DESCRIBE_STRUCT(Identity, (), (failure, version, host, bus_id, id, code))

Result<Place> find_place(const BackendSetup& setup) {
  const Result<const Cuda*> cuda = Cuda::start();
  if (!cuda) return cuda.error();
  const Result<int> index = choose_device(setup, (*cuda)->devices());
  if (!index) return index.error();
  const Result<const CudaDevice*> device = (*cuda)->device(*index);
  if (!device) return device.error();
  const Result<const Library*> library = Library::load();
  if (!library) return library.error();
  return Place{*library, *device};
}

Result<std::vector<Identity>> exchange_identities(const BackendSetup& setup,
                                                  const Result<Place>& place, bool needs_ids) {
  Result<Identity> own = place ? identify(setup, *place, needs_ids) : place.error();
  if (!own) own = Identity{.failure = own.error().detail, .code = own.error().code};
  const auto parts = all(setup, wire::encode(*own));
  if (!parts) return parts.error();
  std::vector<Identity> identities;
  for (const std::string& part : *parts) {
    Result<Identity> one = wire::decode<Identity>(part);
    if (!one) return one.error();
    identities.push_back(std::move(*one));
    if (Result<void> good = check(setup.world, identities); !good) return good.error();
  }
  return identities;
}

}  // namespace c10dd::collectives::nccl
