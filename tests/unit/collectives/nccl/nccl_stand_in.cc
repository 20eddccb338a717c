// SPDX-License-Identifier: Apache-2.0
// The stand-in for libnccl.so.2.
#include "tests/unit/collectives/nccl/nccl_stand_in.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/unit/collectives/nccl/stand_in.h"

namespace c10dd::stand_in {

namespace nccl = collectives::nccl;
using nccl::Status;

NcclControl& nccl_control() {
  static NcclControl control;
  return control;
}

std::mutex& world_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::condition_variable& world_changed() {
  static std::condition_variable changed;
  return changed;
}

namespace {

std::set<Comm>& comms() {
  static std::set<Comm> all;
  return all;
}

std::map<std::string, std::shared_ptr<Team>>& teams() {
  static std::map<std::string, std::shared_ptr<Team>> all;  // by their ids
  return all;
}

thread_local int depth = 0;
thread_local std::vector<std::pair<Comm, Issued>> grouped;

Comm make_comm(std::shared_ptr<Team> team, int rank, int ids, int blocking, std::string name) {
  auto* const comm = new nccl::Communicator;
  comm->team = std::move(team);
  comm->rank = rank;
  comm->device = current_device();
  ++comm->team->joined;
  ++nccl_control().live_comms;
  comms().insert(comm);
  NcclControl& control = nccl_control();
  const std::lock_guard lock(control.mutex);
  control.comms.push_back({rank, comm->team->ranks, ids, std::move(name), blocking, comm->device});
  return comm;
}

/// Blocks the stream until `ready`, or until the communicator is aborted. Returns whether it is
/// ready.
template <class Ready>
bool await(Comm comm, std::unique_lock<std::mutex>& lock, Ready ready) {
  world_changed().wait(lock, [&] { return comm->aborted || ready(); });
  return !comm->aborted;
}

void run_collective(Comm comm, const Issued& issued, std::unique_lock<std::mutex>& lock) {
  Team& team = *comm->team;
  Team::Round& round = team.rounds[comm->rounds++];
  round.arrived[comm->rank] = &issued;
  if (static_cast<int>(round.arrived.size()) == team.ranks) {
    std::vector<const Issued*> ranks;
    for (const auto& [rank, one] : round.arrived) ranks.push_back(one);
    compute(ranks);
    round.done = true;
    world_changed().notify_all();
  } else if (!await(comm, lock, [&] { return round.done; })) {
    if (!round.done) round.arrived.erase(comm->rank);
  }
}

std::size_t bytes_of(const Issued& issued) { return issued.count * size_of_type(issued.type); }

void run_recv(Comm comm, const Issued& issued, std::unique_lock<std::mutex>& lock) {
  auto& mail = comm->team->mail[{issued.root, comm->rank}];
  if (!await(comm, lock,
             [&] { return !mail.empty() && mail.front()->bytes == bytes_of(issued); })) {
    return;
  }
  std::memcpy(issued.to, mail.front()->data, bytes_of(issued));
  mail.front()->taken = true;
  mail.pop_front();
  world_changed().notify_all();
}

/// Runs operations that were issued together, on the stream's thread.
void run(Comm comm, const std::vector<Issued>& operations) {
  std::unique_lock lock(world_mutex());
  ++comm->running;
  const bool stuck = std::ranges::any_of(operations, &Issued::stuck);
  comm->stuck += stuck ? 1 : 0;
  world_changed().notify_all();
  if (stuck) await(comm, lock, [] { return false; });
  std::vector<std::shared_ptr<Sent>> sends;
  for (const Issued& one : operations) {
    if (one.kind != Kind::send || comm->aborted) continue;
    sends.push_back(std::make_shared<Sent>(Sent{one.from, bytes_of(one)}));
    comm->team->mail[{comm->rank, one.root}].push_back(sends.back());
  }
  world_changed().notify_all();
  for (const Issued& one : operations) {
    if (comm->aborted || one.kind == Kind::send) continue;
    one.kind == Kind::recv ? run_recv(comm, one, lock) : run_collective(comm, one, lock);
  }
  for (const auto& sent : sends) await(comm, lock, [&] { return sent->taken; });
  comm->stuck -= stuck ? 1 : 0;
  --comm->running;
  world_changed().notify_all();
}

/// Lets the effect of a call happen, now or after some calls of ncclCommGetAsyncError.
Status let(Comm comm, std::function<void()> effect) {
  const int status = nccl_control().issue_status;
  if (status != 0) return static_cast<Status>(status);
  const std::lock_guard lock(world_mutex());
  if (comm->polls > 0 || comm->gone) ++nccl_control().calls_in_progress;
  comm->polls = nccl_control().polls_in_progress;
  if (comm->polls == 0) {
    effect();
    return Status::success;
  }
  comm->effect = std::move(effect);
  return Status::in_progress;
}

Status issue_all(std::vector<std::pair<Comm, Issued>> all) {
  std::map<Comm, std::vector<Issued>> by_comm;
  for (auto& [comm, issued] : all) by_comm[comm].push_back(issued);
  Status result = Status::success;
  for (const auto& one : by_comm) {
    const Comm comm = one.first;
    const std::vector<Issued> operations = one.second;
    void* const stream = operations.front().stream;
    const Status status = let(comm, [comm, stream, operations] {
      put_on_stream(stream, [comm, operations] { run(comm, operations); });
    });
    if (status != Status::success) result = status;
  }
  return result;
}

Status issue(Comm comm, Issued issued) {
  ++nccl_control().operations;
  issued.stuck = nccl_control().stuck;
  const auto factor = comm->factors.find(static_cast<int>(issued.op));
  if (factor != comm->factors.end()) issued.factor = factor->second;
  if (depth == 0) return issue_all({{comm, issued}});
  grouped.emplace_back(comm, issued);
  return Status::success;
}

/// Makes the child of a split if all ranks have called it. Returns whether they have.
bool end_split(Comm comm) {
  Team::Split& split = comm->team->splits[comm->splits - 1];
  if (static_cast<int>(split.wishes.size()) < comm->team->ranks) return false;
  const auto [color, key] = split.wishes[comm->rank];
  if (color == nccl::kNoColor) {
    *comm->child = nullptr;
  } else {
    std::vector<std::pair<int, int>> members;  // key and rank
    for (const auto& [rank, wish] : split.wishes) {
      if (wish.first == color) members.emplace_back(wish.second, rank);
    }
    std::ranges::sort(members);
    auto& team = split.parts[color];
    if (!team) team = std::make_shared<Team>(Team{.ranks = static_cast<int>(members.size())});
    const auto own = std::ranges::find(members, std::pair(key, comm->rank)) - members.begin();
    *comm->child =
        make_comm(team, static_cast<int>(own), 0, comm->child_name.first, comm->child_name.second);
    (*comm->child)->device = comm->device;
  }
  comm->child = nullptr;
  return true;
}

bool device_is_stuck(int device) {
  return std::ranges::any_of(
      comms(), [&](Comm one) { return one->device == device && one->stuck > 0 && !one->aborting; });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names of NCCL
extern "C" {

Status ncclGetVersion(int* version) {
  *version = nccl_control().version;
  return Status::success;
}
Status ncclGetUniqueId(nccl::UniqueId* id) {
  std::memset(id->bytes, 0, sizeof(id->bytes));
  const std::string text = "id " + std::to_string(++nccl_control().ids_made);
  text.copy(id->bytes, text.size());
  return Status::success;
}
Status ncclCommInitRankScalable(Comm* comm, int ranks, int rank, int id_count, nccl::UniqueId* ids,
                                nccl::Config* config) {
  if (current_device() < 0 || config->magic != nccl::Config{}.magic) return Status::invalid_usage;
  std::string key;
  for (int i = 0; i < id_count; ++i) key += ids[i].bytes;
  const std::lock_guard lock(world_mutex());
  auto& team = teams()[key];
  if (!team) team = std::make_shared<Team>(Team{.ranks = ranks});
  *comm = make_comm(team, rank, id_count, config->blocking,
                    config->comm_name == nullptr ? "" : config->comm_name);
  (*comm)->connecting = true;
  return Status::in_progress;
}
Status ncclCommSplit(Comm comm, int color, int key, Comm* child, nccl::Config* config) {
  const std::lock_guard lock(world_mutex());
  if (comm->polls > 0 || comm->child != nullptr) ++nccl_control().calls_in_progress;
  auto& splits = comm->team->splits;
  if (splits.size() <= comm->splits) splits.resize(comm->splits + 1);
  splits[comm->splits++].wishes[comm->rank] = {color, key};
  comm->child = child;
  comm->child_name = {config->blocking, config->comm_name == nullptr ? "" : config->comm_name};
  return Status::in_progress;
}
Status ncclCommFinalize(Comm comm) {
  ++nccl_control().finalized;
  return let(comm, [] {});
}
Status ncclCommDestroy(Comm comm) {
  ++nccl_control().destroyed;
  const std::lock_guard lock(world_mutex());
  comm->gone = true;
  --nccl_control().live_comms;
  return Status::success;
}
Status ncclCommAbort(Comm comm) {
  NcclControl& control = nccl_control();
  ++control.aborts_begun;
  std::unique_lock lock(world_mutex());
  world_changed().wait_for(lock, std::chrono::milliseconds(control.abort_ms), [] { return false; });
  while (control.aborts_hang) world_changed().wait_for(lock, std::chrono::milliseconds(1));
  comm->aborting = true;
  world_changed().notify_all();
  world_changed().wait(lock, [&] { return !device_is_stuck(comm->device); });
  comm->aborted = true;
  comm->effect = {};
  world_changed().notify_all();
  world_changed().wait(lock, [&] { return comm->running == 0; });
  comm->gone = true;
  --nccl_control().live_comms;
  ++control.aborts_ended;
  return Status::success;
}
Status ncclCommGetAsyncError(Comm comm, Status* status) {
  NcclControl& control = nccl_control();
  const std::lock_guard lock(world_mutex());
  *status = Status::in_progress;
  if (comm->gone) return Status::invalid_argument;
  if (comm->connecting) {
    comm->connecting = comm->team->joined < comm->team->ranks || control.never_connects;
    if (comm->connecting) return Status::success;
  }
  if (comm->child != nullptr && !end_split(comm)) return Status::success;
  if (comm->polls > 0 && --comm->polls > 0) return Status::success;
  if (comm->effect) std::exchange(comm->effect, {})();
  const int failing = control.failing_rank;
  const bool lost = failing >= 0 && failing < comm->team->ranks && failing != comm->rank;
  *status = lost ? static_cast<Status>(control.async_status.load()) : Status::success;
  return Status::success;
}
const char* ncclGetErrorString(Status status) {
  return status == Status::remote_error ? "remote process exited or there was a network error"
                                        : "internal error";
}
const char* ncclGetLastError(Comm) { return "socketProgress: Connection closed by remote peer\n"; }
Status ncclRedOpCreatePreMulSum(Op* op, void* factor, Type type, nccl::Residence, Comm comm) {
  const std::lock_guard lock(world_mutex());
  constexpr int kFirst = 5;
  const int number = kFirst + nccl_control().made_ops++;
  comm->factors[number] = number_of(factor, type);
  *op = static_cast<Op>(number);
  return Status::success;
}
Status ncclRedOpDestroy(Op, Comm) {
  ++nccl_control().destroyed_ops;
  return Status::success;
}
Status ncclAllReduce(const void* from, void* to, std::size_t count, Type type, Op op, Comm comm,
                     void* stream) {
  return issue(comm, {Kind::all_reduce, from, to, count, type, op, 1, 0, stream, false});
}
Status ncclReduce(const void* from, void* to, std::size_t count, Type type, Op op, int root,
                  Comm comm, void* stream) {
  return issue(comm, {Kind::reduce, from, to, count, type, op, 1, root, stream, false});
}
Status ncclBroadcast(const void* from, void* to, std::size_t count, Type type, int root, Comm comm,
                     void* stream) {
  return issue(comm, {Kind::broadcast, from, to, count, type, Op::sum, 1, root, stream, false});
}
Status ncclAllGather(const void* from, void* to, std::size_t count, Type type, Comm comm,
                     void* stream) {
  return issue(comm, {Kind::all_gather, from, to, count, type, Op::sum, 1, 0, stream, false});
}
Status ncclReduceScatter(const void* from, void* to, std::size_t count, Type type, Op op, Comm comm,
                         void* stream) {
  return issue(comm, {Kind::reduce_scatter, from, to, count, type, op, 1, 0, stream, false});
}
Status ncclSend(const void* from, std::size_t count, Type type, int peer, Comm comm, void* stream) {
  return issue(comm, {Kind::send, from, nullptr, count, type, Op::sum, 1, peer, stream, false});
}
Status ncclRecv(void* to, std::size_t count, Type type, int peer, Comm comm, void* stream) {
  return issue(comm, {Kind::recv, nullptr, to, count, type, Op::sum, 1, peer, stream, false});
}
Status ncclGroupStart() {
  ++depth;
  return Status::success;
}
Status ncclGroupEnd() {
  if (--depth > 0) return Status::success;
  ++nccl_control().groups;
  return issue_all(std::exchange(grouped, {}));
}
}
// NOLINTEND(readability-identifier-naming)

}  // namespace c10dd::stand_in
