// SPDX-License-Identifier: Apache-2.0
// ProcessGroup: collectives, such as all_reduce, among the members of one World. Standard library
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10dd/bootstrap.h>
#include <c10dd/hooks.h>
#include <c10dd/operation.h>
#include <c10dd/tensor.h>
#include <c10dd/types.h>
#include <c10dd/work.h>

namespace c10dd {

class Client;
class Membership;

struct GroupOptions {
  /// gloo, mpi, nccl, loopback (the ranks are threads of one process), or auto: the variable
  /// C10DD_BACKEND, or gloo if it is not set. Or one for each kind of device, such as
  /// "cpu:gloo,cuda:nccl", equal on all ranks: an operation runs on the backend of its tensors'
  /// device, and one without tensors on that of the cpu.
  std::string backend = "auto";
  Duration timeout = std::chrono::minutes(10);  ///< limit for each operation; must be above 0
  /// Limit for each of two steps: exchanging addresses, and connecting. Must be above 0.
  Duration open_timeout = std::chrono::minutes(5);
  /// Network interface of this rank, such as "eth0". Only for gloo. If empty, `hostname` is used.
  std::string interface = {};
  /// Host name or address of this rank. Only for gloo. Ignored if `interface` is set. If both are
  /// empty, the interface comes from the variable C10DD_GLOO_INTERFACE, else from
  /// GLOO_SOCKET_IFNAME; of several with commas between, the first that has an address. If neither
  /// is set, the address comes from Bootstrap::local_address().
  std::string hostname = {};
  /// Number of the GPU of this rank among those that the process sees. Only for nccl. If below 0:
  /// the only GPU, else the local rank that the launcher has given, else the rank in the job modulo
  /// the number of GPUs.
  int device = -1;
  /// What happens when the daemon finds out that the group can never go on: its ranks have issued
  /// different collectives, or wait for each other in a circle and all their threads that issue
  /// operations wait, too. If true, the group is aborted with the daemon's sentence, usually within
  /// two seconds, or six for a circle: its work fails with Aborted, with equal texts on all ranks.
  /// If false, the group waits until its time-out. Only for groups that a client or a membership
  /// has opened.
  bool abort_when_stuck = true;
  std::vector<std::shared_ptr<Hook>> hooks = {};  ///< called in this order
};

/// Options of a group of some ranks of another group. What is not set is as in that group.
struct SubgroupOptions {
  std::optional<std::string> kind = {};  ///< World::kind
  std::optional<std::string> backend = {};
  std::optional<Duration> timeout = {};
  std::vector<std::shared_ptr<Hook>> hooks = {};  ///< the hooks of the other group do not count
};

/// Collectives among the members of one World. All ranks must issue the same operations in the same
/// order, with equal types, sizes, reductions and roots. A group runs its operations in the order
/// in which they were issued, from however many threads.
///
/// issue(), and the functions named after operations, are synchronous: they return after the
/// operation has ended, and throw what Work::wait() would throw. With CallOptions::async they
/// return at once, and the returned Work gets the outcome. A synchronous operation runs on its
/// caller's thread if the backend allows it; all others run on a worker thread, which starts with
/// the first of them.
///
/// Tensors may be in cuda memory, all of an operation on one device. On backend nccl an operation
/// on them begins after what their streams have when it is issued. A synchronous call returns when
/// the operation is on the device, with work that may be pending: what the caller puts on the
/// tensor's stream afterwards runs after the operation. See Work::wait(stream). The memory must
/// stay valid until the Work has ended. NCCL combines the bytes of booleans there as numbers: they
/// must be 0 or 1, or the result is one of the bytes, such as 7 as the maximum of 7 and 1.
///
/// The functions throw InvalidArgument if the time-out is not positive, if a tensor with elements
/// has null data or an unknown type, or if the sizes of the tensors do not fit each other. They
/// throw Error with code `unsupported` for what the backend lacks. An operation on tensors without
/// elements (count 0) succeeds without waiting for the other ranks. After its first failure a group
/// is unusable: queued and later work is abandoned with the reason of the first failure. To
/// continue, open a new group with a higher generation.
///
/// Thread-safe. In a process that was forked after the group was opened, issuing an operation,
/// abort() and shutdown() throw Forked.
class ProcessGroup {
 public:
  /// Opens a group whose members exchange their addresses through `bootstrap`. Blocks until all
  /// members have opened the group. Passes on any exception of the bootstrap, such as TimedOut.
  /// Throws Unavailable if a rank cannot be reached. Throws InvalidArgument for an invalid argument
  /// or an unknown backend. For an unknown backend, the error text lists the folders that were
  /// searched for the backend's module. Throws Error with code `unsupported` if the module cannot
  /// be loaded or is from another build than this library.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Bootstrap> bootstrap, World world,
                                            GroupOptions options = {});

  /// Opens a group whose members exchange their addresses through the daemon. The daemon's metrics
  /// count every collective of the group. The group shares ownership of the client. Blocks and
  /// throws like the first open().
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Client> client, World world,
                                            GroupOptions options = {});

  /// Opens the group of all processes that the launcher has started. The client knows the rank and
  /// the world size; `kind` becomes World::kind. Blocks and throws like the first open(). Also
  /// throws InvalidArgument if the client does not know its rank or the world size.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Client> client,
                                            GroupOptions options = {}, std::string kind = "dp");

  /// Opens the group of the members of a rendezvous, in its newest generation; `kind` becomes
  /// World::kind. Blocks and throws like the first open(). Also throws Aborted, without waiting for
  /// a time-out, if the generation ends before the group is open.
  ///
  /// If the generation ends while the group is open (a member is lost, leaves or calls next(), or
  /// this process has lost the daemon for too long), the group and all groups that were made from
  /// it are aborted without waiting for a time-out. Their collectives then fail with Aborted, whose
  /// text names ranks and hosts.
  ///
  /// The group shares ownership of the membership, whose destructor leaves the rendezvous.
  static std::shared_ptr<ProcessGroup> open(std::shared_ptr<Membership> membership,
                                            GroupOptions options = {}, std::string kind = "dp");

  /// Aborts the work that is still pending and closes the connections to the other ranks. Blocks
  /// until the running operation has ended.
  virtual ~ProcessGroup() = default;

  /// Reduces `tensor` over all ranks, element by element, in place: afterwards every rank has the
  /// result. `count` and `dtype` must be equal on all ranks. The backend chooses the order of the
  /// operations, which affects the rounding of floats. Throws InvalidArgument unless
  /// combines(op, tensor.dtype).
  WorkPtr all_reduce(Tensor tensor, ReduceOp op = ReduceOp::sum, CallOptions options = {});

  /// Copies the elements of rank `root` to all other ranks, in place. `count` and `dtype` must be
  /// equal on all ranks. Throws InvalidArgument if `root` is not a rank of the group.
  WorkPtr broadcast(Tensor tensor, Rank root, CallOptions options = {});

  /// Concatenates the inputs of all ranks, in rank order, into the output of every rank. Throws
  /// InvalidArgument if the output does not have size() times the elements of the input. `input`
  /// may be this rank's own part of `output`; otherwise input and output must not overlap.
  WorkPtr all_gather_single(Tensor output, Tensor input, CallOptions options = {});

  /// Reduces `tensor` over all ranks, as all_reduce() does, but only `root` gets the result. The
  /// tensors of the other ranks do not change.
  WorkPtr reduce(Tensor tensor, Rank root, ReduceOp op = ReduceOp::sum, CallOptions options = {});

  /// Reduces `input` over all ranks, and splits the result into size() equal parts. `output` gets
  /// the part with the number of this rank. `input` must have size() times the elements of
  /// `output`, and does not change unless `output` is this rank's own part of it; otherwise they
  /// must not overlap.
  WorkPtr reduce_scatter_single(Tensor output, Tensor input, ReduceOp op = ReduceOp::sum,
                                CallOptions options = {});

  /// Concatenates the inputs of all ranks, in rank order, into the output of `root`. The outputs of
  /// the other ranks must be empty.
  WorkPtr gather_single(Tensor output, Tensor input, Rank root, CallOptions options = {});

  /// Splits the input of `root` into size() equal parts. The output of each rank gets the part with
  /// its number. The inputs of the other ranks must be empty.
  WorkPtr scatter_single(Tensor output, Tensor input, Rank root, CallOptions options = {});

  /// Splits the input of each rank into size() equal parts. Part i goes to rank i, which puts the
  /// parts into its output in the order of the ranks that they come from. Input and output must not
  /// overlap.
  WorkPtr all_to_all_single(Tensor output, Tensor input, CallOptions options = {});

  /// A barrier at the daemon: costs one request. After `timeout` (if empty, GroupOptions::timeout)
  /// throws TimedOut, whose missing() has all ranks that have not come, with host, pid and cause;
  /// the group stays usable. Runs beside the group's operations, not in their order. Blocks. Throws
  /// Error with code `unsupported` if the group was opened without a daemon.
  virtual void monitored_barrier(std::optional<Duration> timeout = {}) = 0;

  /// The following have a tensor for each rank, in rank order. The sizes of these tensors may
  /// differ, and may be 0, but all have one type. Tensors must not overlap, except that a rank's
  /// tensor for itself may be the one from which it is copied. If two ranks disagree about the size
  /// of the tensor that one sends to the other, the operation fails, or times out and names the
  /// ranks that are awaited.

  /// outputs[i] gets the input of rank i.
  WorkPtr all_gather(std::vector<Tensor> outputs, Tensor input, CallOptions options = {});

  /// Reduces inputs[i] over all ranks, for each i; `output` of rank i gets the result. The sizes of
  /// the inputs must be equal on all ranks.
  WorkPtr reduce_scatter(Tensor output, std::vector<Tensor> inputs, ReduceOp op = ReduceOp::sum,
                         CallOptions options = {});

  /// On `root`, outputs[i] gets the input of rank i. On other ranks, `outputs` must be empty.
  WorkPtr gather(std::vector<Tensor> outputs, Tensor input, Rank root, CallOptions options = {});

  /// The output of rank i gets inputs[i] of `root`. On other ranks, `inputs` must be empty.
  WorkPtr scatter(Tensor output, std::vector<Tensor> inputs, Rank root, CallOptions options = {});

  /// outputs[i] gets inputs[own rank] of rank i.
  WorkPtr all_to_all(std::vector<Tensor> outputs, std::vector<Tensor> inputs,
                     CallOptions options = {});

  /// As all_to_all() with consecutive parts of `output` and `input`. The splits are the numbers of
  /// elements of the parts; throws InvalidArgument if they do not add up.
  WorkPtr all_to_all_single(Tensor output, Tensor input,
                            const std::vector<std::size_t>& output_splits,
                            const std::vector<std::size_t>& input_splits, CallOptions options = {});

  /// Moves no data: the Work is done after every rank has issued the barrier.
  WorkPtr barrier(CallOptions options = {});

  /// Sends the elements to rank `peer`, which must call recv(). Ends when `peer` has them. Messages
  /// from one rank to another with equal tags arrive in the order in which they were sent. If the
  /// tensor of recv() is too small or has another type, both fail with code size_mismatch and both
  /// sizes, and the group stays usable; any other failure ends the group. Throws InvalidArgument if
  /// `peer` is this rank or not a rank of the group, or if `tag` is kAnyTag.
  WorkPtr send(Tensor tensor, Rank peer, std::uint32_t tag = 0, CallOptions options = {});

  /// Receives a message from `peer` (or any rank, if kAnyRank) with this tag (or any, if kAnyTag).
  /// The message may be shorter than the tensor; Work::received() has its length, source and tag.
  WorkPtr recv(Tensor tensor, Rank peer, std::uint32_t tag = 0, CallOptions options = {});

  /// As send() and recv(), but return at once. Sends and receives that wait for their peers hold up
  /// no collective, and no other message; but on backend nccl all messages of a group run one after
  /// the other, so there they hold up each other, unless coalesce() issues them together.
  WorkPtr isend(Tensor tensor, Rank peer, std::uint32_t tag = 0) {
    return send(std::move(tensor), peer, tag, {.async = true});
  }
  WorkPtr irecv(Tensor tensor, Rank peer, std::uint32_t tag = 0) {
    return recv(std::move(tensor), peer, tag, {.async = true});
  }

  /// Issues several operations together, in the order of the list. The Work ends when all of them
  /// have ended; its wait() and on_end() count for all. Backend nccl runs the collectives of the
  /// list as one group of NCCL, and its sends and receives as another one, in which they do not
  /// wait for each other; other backends run them one after the other. All ranks must coalesce the
  /// same collectives. Each operation has its own sequence. Throws, and issues nothing, if the list
  /// is empty or one of the operations is refused.
  virtual WorkPtr coalesce(std::vector<Operation> operations, CallOptions options = {}) = 0;

  /// Opens a group of some ranks of this group; ranks[i] becomes rank i of the new group. Called by
  /// these ranks only, all with the same list. Costs each of them one request to the daemon. Blocks
  /// and throws as open() does. Throws InvalidArgument if the list has a rank twice, lacks this
  /// rank, or names a rank that this group does not have.
  virtual std::shared_ptr<ProcessGroup> new_group(const std::vector<Rank>& ranks,
                                                  SubgroupOptions options = {}) = 0;

  /// Opens a group for each color: of all ranks that give that color, in the order of their keys,
  /// and of their ranks where keys are equal. Called by all ranks of this group, as a collective.
  /// Returns null if `color` is negative. Exchanges addresses through this group, without the
  /// daemon. Blocks and throws as open() does.
  virtual std::shared_ptr<ProcessGroup> split(std::int32_t color, std::int32_t key = 0,
                                              SubgroupOptions options = {}) = 0;

  /// Issues any operation. Sets the fields that Operation leaves to the group.
  virtual WorkPtr issue(Operation operation, CallOptions options = {}) = 0;

  /// Returns zeroed memory for `count` elements, in which the backend works best, such as the
  /// buckets of a reducer. The memory stays valid as long as a copy of the tensor exists, also
  /// after the group was destroyed. Not a collective operation. Throws Error with code
  /// `unsupported` if the backend has no memory of this device.
  virtual Tensor allocate(DType dtype, std::size_t count, Device device = {}) = 0;

  virtual const World& world() const = 0;
  virtual std::string_view backend() const = 0;  ///< GroupOptions::backend
  virtual std::string describe() const = 0;      ///< what the backend uses, for logs
  Rank rank() const { return world().rank; }
  Rank size() const { return world().size; }  ///< number of ranks
  const std::string& kind() const { return world().kind; }

  /// Ends the group. The running collective fails, and queued work is abandoned. Both get the code
  /// `aborted` and a text that contains `reason`. Does not wait for the running collective, so the
  /// tensors can still be in use until the Work has ended. The other ranks' collectives fail
  /// shortly afterwards. This rank sends `reason` to the other ranks before it closes the
  /// connections. A rank that does not receive `reason` in time fails without it. MPI cannot tell
  /// the other ranks: they fail at their time-outs, or at the end of the generation.
  virtual void abort(const std::string& reason) = 0;

  /// Calls abort(reason) of all open groups of this process that have the given generation or an
  /// earlier one, and that either have this name or were made from a group with this name by
  /// new_group() or split(). Returns how many there were. For a process that has learnt by itself
  /// that a generation has ended: a group that was opened with a Membership needs no such call.
  static std::size_t abort_all(const std::string& name, std::uint64_t generation,
                               const std::string& reason);

  /// Blocks until all work that was issued has ended. Work that is issued after this call is
  /// abandoned with code closed. The connections stay open until the group is destroyed.
  virtual void shutdown() = 0;
};

}  // namespace c10dd
