// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/operations.h"

#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectives/agreement.h"
#include "collectives/mpi/calls.h"
#include "collectives/mpi/types.h"
#include "collectives/reduce.h"
#include "collectives/wide_average.h"

namespace c10dd::collectives::mpi {
namespace {

int int_of(std::size_t count) {
  if (count > kCountMax) {
    throw CallFailed(
        format("{} elements are too many for one MPI call (limit {}): use smaller "
               "tensors",
               count, kCountMax));
  }
  return static_cast<int>(count);
}

/// One operation on one communicator.
class Run {
 public:
  Run(const Operation& operation, MPI_Comm comm) : operation_(operation), comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
  }

  Result<void> operator()() {
    if (Result<void> same = agree(hash_of(operation_) ^ operation_.sequence); !same) return same;
    if (operation_.lists && !info_of(operation_.collective).reduces) return exchange();
    if (WideAverage::suits(operation_)) {
      const WideAverage wide(operation_);
      Run(wide.operation(), comm_).collective();
      if (operation_.collective != Collective::reduce || is_root()) wide.store();
      return {};
    }
    collective();
    return {};
  }

 private:
  void collective() {
    switch (operation_.collective) {
      case Collective::all_reduce:
        all_reduce();
        break;
      case Collective::broadcast:
        broadcast();
        break;
      case Collective::reduce:
        reduce();
        break;
      case Collective::all_gather:
        all_gather();
        break;
      case Collective::reduce_scatter:
        operation_.lists ? reduce_scatter_lists() : reduce_scatter();
        break;
      case Collective::gather:
        gather();
        break;
      case Collective::scatter:
        scatter();
        break;
      case Collective::all_to_all:
        all_to_all();
        break;
      case Collective::barrier:  // agree() was a barrier
      case Collective::send:     // Messages runs them
      case Collective::recv:
        break;
    }
  }

  const Tensor& output() const { return operation_.output; }
  const Tensor& input() const { return operation_.input; }
  Rank rank() const { return static_cast<Rank>(rank_); }
  Rank size() const { return static_cast<Rank>(size_); }
  bool is_root() const { return operation_.root == rank(); }
  int root() const { return static_cast<int>(operation_.root); }
  MPI_Datatype type() const { return type_of(operation_.common().dtype); }
  MPI_Op op() const { return op_of(operation_.reduce.kind, operation_.common().dtype); }

  /// Returns whether `part` is where the part of this rank is in `whole`.
  bool is_own_part(const Tensor& part, const Tensor& whole) const {
    return part.count > 0 && whole.slice(rank() * part.count, 0).data == part.data;
  }

  /// Fails on every rank unless all ranks give the same word.
  Result<void> agree(std::uint64_t word) {
    std::array<std::uint64_t, 2> highest = {word, ~word};
    require(MPI_Allreduce(MPI_IN_PLACE, highest.data(), 2, MPI_UINT64_T, MPI_MAX, comm_),
            "MPI_Allreduce");
    if (highest[0] == ~highest[1]) return {};
    return difference();
  }

  /// Called by all ranks if they do not agree. Names the ranks that differ from rank 0.
  Failure difference() {
    constexpr int kText = 256;
    std::array<char, kText> own{};
    text_of(operation_).copy(own.data(), kText - 1);
    std::vector<char> all(static_cast<std::size_t>(size_) * kText);
    require(MPI_Allgather(own.data(), kText, MPI_CHAR, all.data(), kText, MPI_CHAR, comm_),
            "MPI_Allgather");
    const auto text = [&](Rank of) { return std::string(&all[std::size_t{of} * kText]); };
    std::vector<Rank> different;
    for (Rank other = 1; other < size(); ++other) {
      if (text(other) != text(0)) different.push_back(other);
    }
    if (different.empty()) {
      return failure(Code::size_mismatch,
                     "{}: the tensors in the lists have different sizes on different ranks",
                     text(0));
    }
    return issued_differently(different, text(different.front()), text(0));
  }

  /// Calls f(part) for parts of the tensor that MPI can count.
  void each_part(const Tensor& tensor, const std::function<void(const Tensor&)>& f) {
    for (std::size_t begin = 0; begin < tensor.count; begin += kCountMax) {
      f(tensor.slice(begin, std::min(kCountMax, tensor.count - begin)));
    }
  }

  void all_reduce() {
    prepare(output(), operation_.reduce, size());
    each_part(output(), [&](const Tensor& part) {
      require(MPI_Allreduce(MPI_IN_PLACE, part.data, int_of(part.count), type(), op(), comm_),
              "MPI_Allreduce");
    });
    finish(output(), operation_.reduce, size());
  }

  void broadcast() {
    each_part(output(), [&](const Tensor& part) {
      require(MPI_Bcast(part.data, int_of(part.count), type(), root(), comm_), "MPI_Bcast");
    });
  }

  /// Returns the tensor, or a copy that prepare() has changed. The elements are then in `memory`.
  Tensor prepared(Tensor tensor, std::vector<std::byte>& memory) const {
    const bool changes = operation_.reduce == ReduceOp::premul_sum ||
                         operation_.reduce == ReduceOp::avg || tensor.dtype == DType::boolean;
    if (!changes) return tensor;
    const auto* const bytes = static_cast<const std::byte*>(tensor.data);
    memory.assign(bytes, bytes + tensor.bytes());
    tensor.data = memory.data();
    prepare(tensor, operation_.reduce, size());
    return tensor;
  }

  void reduce() {
    std::vector<std::byte> memory;
    Tensor from = output();
    is_root() ? prepare(from, operation_.reduce, size()) : void(from = prepared(from, memory));
    each_part(from, [&](const Tensor& part) {
      require(MPI_Reduce(is_root() ? MPI_IN_PLACE : part.data, is_root() ? part.data : nullptr,
                         int_of(part.count), type(), op(), root(), comm_),
              "MPI_Reduce");
    });
    if (is_root()) finish(output(), operation_.reduce, size());
  }

  void all_gather() {
    const int count = int_of(input().count);
    const bool in_place = is_own_part(input(), output());
    require(MPI_Allgather(in_place ? MPI_IN_PLACE : input().data, count, type(), output().data,
                          count, type(), comm_),
            "MPI_Allgather");
  }

  void reduce_scatter() {
    std::vector<std::byte> memory;
    Tensor from = prepared(input(), memory);
    if (is_own_part(output(), from)) {  // MPI does not allow that
      const auto* const bytes = static_cast<const std::byte*>(from.data);
      memory.assign(bytes, bytes + from.bytes());
      from.data = memory.data();
    }
    require(MPI_Reduce_scatter_block(from.data, output().data, int_of(output().count), type(), op(),
                                     comm_),
            "MPI_Reduce_scatter_block");
    finish(output(), operation_.reduce, size());
  }

  void reduce_scatter_lists() {
    Tensor packed = operation_.inputs.front();
    packed.count = count_of(operation_.inputs);
    std::vector<std::byte> memory(packed.bytes());
    packed.data = memory.data();
    std::vector<int> counts;
    std::size_t begin = 0;
    for (const Tensor& one : operation_.inputs) {
      if (one.count > 0) std::memcpy(packed.slice(begin, 0).data, one.data, one.bytes());
      begin += one.count;
      counts.push_back(int_of(one.count));
    }
    int_of(packed.count);  // MPI adds the counts
    prepare(packed, operation_.reduce, size());
    require(MPI_Reduce_scatter(packed.data, output().data, counts.data(), type(), op(), comm_),
            "MPI_Reduce_scatter");
    finish(output(), operation_.reduce, size());
  }

  void gather() {
    const int count = int_of(input().count);
    const bool in_place = is_root() && is_own_part(input(), output());
    require(MPI_Gather(in_place ? MPI_IN_PLACE : input().data, count, type(),
                       is_root() ? output().data : nullptr, count, type(), root(), comm_),
            "MPI_Gather");
  }

  void scatter() {
    const int count = int_of(output().count);
    const bool in_place = is_root() && is_own_part(output(), input());
    require(MPI_Scatter(is_root() ? input().data : nullptr, count, type(),
                        in_place ? MPI_IN_PLACE : output().data, count, type(), root(), comm_),
            "MPI_Scatter");
  }

  void all_to_all() {
    const int count = int_of(input().count / size());
    require(MPI_Alltoall(input().data, count, type(), output().data, count, type(), comm_),
            "MPI_Alltoall");
  }

  /// Runs an operation with lists: each rank sends a tensor to each other rank.
  Result<void> exchange() {
    if (Result<void> same = agree_about_lists(); !same) return same;
    std::vector<MPI_Request> requests;
    for (int i = 1; i < size_; ++i) {
      const int from = (rank_ + size_ - i) % size_;
      const Tensor* const tensor = operation_.received(static_cast<Rank>(from));
      if (tensor == nullptr || tensor->count == 0) continue;
      require(MPI_Irecv(tensor->data, int_of(tensor->count), type(), from, 0, comm_,
                        &requests.emplace_back()),
              "MPI_Irecv");
    }
    for (int i = 1; i < size_; ++i) {
      const int to = (rank_ + i) % size_;
      const Tensor* const tensor = operation_.sent(static_cast<Rank>(to));
      if (tensor == nullptr || tensor->count == 0) continue;
      require(MPI_Isend(tensor->data, int_of(tensor->count), type(), to, 0, comm_,
                        &requests.emplace_back()),
              "MPI_Isend");
    }
    const Tensor* const from = operation_.sent(rank());
    const Tensor* const to = operation_.received(rank());
    if (from != nullptr && to != nullptr && from->count > 0) {
      std::memmove(to->data, from->data, from->bytes());  // it may be in its place already
    }
    require(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
    return {};
  }

  /// Fails on every rank if two ranks disagree about the size of the tensor that one sends to the
  /// other, or if MPI cannot count its elements.
  Result<void> agree_about_lists() {
    constexpr std::uint64_t kNothing = 0;
    std::vector<std::uint64_t> sent(size());
    std::vector<std::uint64_t> theirs(size());
    for (Rank other = 0; other < size(); ++other) {
      const Tensor* const tensor = operation_.sent(other);
      sent[other] = tensor == nullptr ? kNothing : tensor->count;
    }
    require(MPI_Alltoall(sent.data(), 1, MPI_UINT64_T, theirs.data(), 1, MPI_UINT64_T, comm_),
            "MPI_Alltoall");
    // Whether a size is wrong; then the first such sender, what it sends, and the room for it,
    // which is equal if the size is only too large.
    std::array<std::uint64_t, 4> wrong = {};
    for (Rank other = size(); other-- > 0;) {
      const Tensor* const tensor = operation_.received(other);
      const std::uint64_t room = tensor == nullptr ? kNothing : tensor->count;
      const bool too_large = other != rank() && room > kCountMax;
      if (room != theirs[other] || too_large) wrong = {1, other, theirs[other], room};
    }
    std::vector<std::uint64_t> all(wrong.size() * size());
    require(MPI_Allgather(wrong.data(), 4, MPI_UINT64_T, all.data(), 4, MPI_UINT64_T, comm_),
            "MPI_Allgather");
    for (Rank other = 0; other < size(); ++other) {
      const std::uint64_t* const seen = &all[wrong.size() * other];
      if (seen[0] == 0) continue;
      if (seen[2] == seen[3]) {
        return failure(Code::unsupported,
                       "{}: rank {} sends {} elements to rank {}, but MPI takes at most {}: use "
                       "smaller tensors",
                       name_of(operation_.collective), seen[1], seen[2], other, kCountMax);
      }
      return sizes_differ(operation_, static_cast<Rank>(seen[1]), seen[2], other, seen[3]);
    }
    return {};
  }

  const Operation& operation_;
  const MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

Result<void> run(const Operation& operation, MPI_Comm comm) {
  try {
    return Run(operation, comm)();
  } catch (const std::exception& failed) {  // also std::bad_alloc
    return failure(Code::internal, "{}: {}", name_of(operation.collective), failed.what());
  }
}

}  // namespace c10dd::collectives::mpi
