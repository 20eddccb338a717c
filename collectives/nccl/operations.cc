// SPDX-License-Identifier: Apache-2.0
// Data that is only moved is moved as bytes, so that it can have any type. NCCL compares nothing:
// if ranks issue different operations, they wait until their deadline.
#include "collectives/nccl/operations.h"

#include <cstddef>

#include "collectives/nccl/types.h"

namespace c10dd::collectives::nccl {
namespace {

bool is_bad(Status status) { return status != Status::success && status != Status::in_progress; }

/// Calls functions of NCCL until one fails.
class Calls {
 public:
  explicit Calls(const Channel& channel) : channel_(channel) {}

  /// Calls function(arguments...), which the error text will call `name`.
  template <class Function, class... Arguments>
  void operator()(const char* name, Function function, Arguments... arguments) {
    if (is_bad(issued_.status)) return;
    const Status status = function(arguments...);
    if (is_bad(status)) {
      issued_ = {status, name};
    } else if (status == Status::in_progress) {
      issued_.status = status;
    }
  }

  void begin_group() { (*this)("ncclGroupStart", channel_.api.group_start); }

  /// Ends a group also after a failure, because the group belongs to the thread.
  void end_group() {
    const Status status = channel_.api.group_end();
    if (!is_bad(issued_.status)) issued_ = {status, "ncclGroupEnd"};
  }

  const Issued& issued() const { return issued_; }

 private:
  const Channel& channel_;
  Issued issued_;
};

/// Issues one operation.
class Run {
 public:
  Run(const Channel& channel, const Operation& operation, Op op, Calls& calls)
      : channel_(channel), operation_(operation), op_(op), calls_(calls) {}

  void operator()() {
    if (operation_.lists)
      return operation_.inputs.empty() || !reduces() ? exchange() : reduce_lists();
    switch (operation_.collective) {
      case Collective::all_reduce:
        return calls_("ncclAllReduce", api().all_reduce, output().data, output().data,
                      output().count, type(), op_, channel_.comm, channel_.stream);
      case Collective::reduce:
        return reduce(output(), output().data, operation_.root);
      case Collective::broadcast:
        return calls_("ncclBroadcast", api().broadcast, output().data, output().data,
                      output().bytes(), Type::int8, root(), channel_.comm, channel_.stream);
      case Collective::all_gather:
        return calls_("ncclAllGather", api().all_gather, input().data, output().data,
                      input().bytes(), Type::int8, channel_.comm, channel_.stream);
      case Collective::reduce_scatter:
        return calls_("ncclReduceScatter", api().reduce_scatter, input().data, output().data,
                      output().count, type(), op_, channel_.comm, channel_.stream);
      case Collective::gather:
      case Collective::scatter:
      case Collective::all_to_all:
        return exchange_parts();
      case Collective::send:
        return send(input(), operation_.peer);
      case Collective::recv:
        return recv(output(), operation_.peer);
      case Collective::barrier:  // the backend makes it an all_reduce
        return;
    }
  }

 private:
  const Api& api() const { return channel_.api; }
  const Tensor& output() const { return operation_.output; }
  const Tensor& input() const { return operation_.input; }
  bool reduces() const { return info_of(operation_.collective).reduces; }
  int root() const { return static_cast<int>(operation_.root); }
  Type type() const { return type_of(operation_.common().dtype).value_or(Type::int8); }

  void send(const Tensor& tensor, Rank peer) {
    if (tensor.count == 0) return;
    calls_("ncclSend", api().send, tensor.data, tensor.bytes(), Type::int8, static_cast<int>(peer),
           channel_.comm, channel_.stream);
  }

  void recv(const Tensor& tensor, Rank peer) {
    if (tensor.count == 0) return;
    calls_("ncclRecv", api().recv, tensor.data, tensor.bytes(), Type::int8, static_cast<int>(peer),
           channel_.comm, channel_.stream);
  }

  void reduce(const Tensor& from, void* to, Rank at) {
    if (from.count == 0) return;
    calls_("ncclReduce", api().reduce, from.data, to, from.count, type(), op_, static_cast<int>(at),
           channel_.comm, channel_.stream);
  }

  /// Runs reduce_scatter of a list, whose tensors differ in size.
  void reduce_lists() {
    calls_.begin_group();
    for (Rank at = 0; at < channel_.size; ++at) {
      const Tensor& from = operation_.inputs[at];
      reduce(from, at == channel_.rank ? output().data : from.data, at);
    }
    calls_.end_group();
  }

  /// Sends a tensor to each rank that has a place for it. sent(peer) and received(peer) return the
  /// tensor, or null.
  template <class Sent, class Received>
  void exchange(Sent sent, Received received) {
    calls_.begin_group();
    for (Rank peer = 0; peer < channel_.size; ++peer) {
      const Tensor* const from = sent(peer);
      const Tensor* const to = received(peer);
      const bool in_place = peer == channel_.rank && from && to && from->data == to->data;
      if (in_place) continue;
      if (from) send(*from, peer);
      if (to) recv(*to, peer);
    }
    calls_.end_group();
  }

  /// Runs an operation with lists that does not reduce.
  void exchange() {
    exchange([&](Rank peer) { return operation_.sent(peer); },
             [&](Rank peer) { return operation_.received(peer); });
  }

  /// Runs gather, scatter or all_to_all of equal parts.
  void exchange_parts() {
    const bool at_root = operation_.root == channel_.rank;
    const bool all = operation_.collective == Collective::all_to_all;
    const bool gathers = operation_.collective == Collective::gather;
    const std::size_t count =
        all ? input().count / channel_.size : operation_.common().count;  // of a part
    Tensor from;
    Tensor to;
    exchange(
        [&](Rank peer) -> const Tensor* {
          const bool has_all = all || (!gathers && at_root);
          if (!has_all && (!gathers || peer != operation_.root)) return nullptr;
          from = has_all ? input().slice(peer * count, count) : input();
          return &from;
        },
        [&](Rank peer) -> const Tensor* {
          const bool has_all = all || (gathers && at_root);
          if (!has_all && (gathers || peer != operation_.root)) return nullptr;
          to = has_all ? output().slice(peer * count, count) : output();
          return &to;
        });
  }

  const Channel& channel_;
  const Operation& operation_;
  const Op op_;
  Calls& calls_;
};

/// Makes the operator of premul_sum, whose factor has the type of the elements.
Op make_premul_sum(const Channel& channel, const Operation& operation, Calls& calls,
                   MadeOps& made) {
  Op op{};
  const DType dtype = operation.common().dtype;
  with_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      T factor = T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(
          operation.reduce.factor));
      calls("ncclRedOpCreatePreMulSum", channel.api.premul_sum, &op, static_cast<void*>(&factor),
            type_of(dtype).value_or(Type::float32), Residence::host, channel.comm);
    }
  });
  if (!is_bad(calls.issued().status)) made.push_back(op);
  return op;
}

}  // namespace

Issued issue(const Channel& channel, const std::vector<const Operation*>& operations,
             MadeOps& made) {
  Calls calls(channel);
  std::vector<Op> ops;
  for (const Operation* operation : operations) {
    const bool reduces = info_of(operation->collective).reduces;
    const ReduceOp::Kind kind = operation->reduce.kind;
    if (reduces && kind == ReduceOp::premul_sum) {
      ops.push_back(make_premul_sum(channel, *operation, calls, made));
    } else {
      ops.push_back(reduces ? op_of(kind, operation->common().dtype).value_or(Op::sum) : Op::sum);
    }
  }
  if (is_bad(calls.issued().status)) return calls.issued();
  if (operations.size() > 1) calls.begin_group();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    Run(channel, *operations[i], ops[i], calls)();
  }
  if (operations.size() > 1) calls.end_group();
  return calls.issued();
}

}  // namespace c10dd::collectives::nccl
