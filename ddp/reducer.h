// SPDX-License-Identifier: Apache-2.0
// Reducer: averages gradients over the ranks of a process group while the backward pass is still
// running. Standard library only.
//
// Source of the algorithm: DistributedDataParallel of PyTorch (Li et al., "PyTorch Distributed:
// Experiences on Accelerating Data Parallel Training", VLDB 2020). Gradients are grouped into
// buckets in the reverse order of the parameters. A bucket is all-reduced as soon as all its
// gradients are ready and all earlier buckets have been issued. So every rank issues the same
// collectives in the same order.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <c10dd/buckets.h>
#include <c10dd/process_group.h>
#include <c10dd/tensor.h>

namespace c10dd::ddp {

/// One parameter of the model. The caller must keep the memory of `value` and `gradient` as long as
/// the reducer exists.
struct Parameter {
  std::string name;  ///< shown in error texts; must be the same on all ranks
  Tensor value;      ///< the weights, float32 or float64; written only by Reducer's constructor
  /// Length in each dimension. The product must be the number of elements of `value`. The product
  /// of an empty shape is 1. All ranks must give the same shape.
  std::vector<std::size_t> shape = {};
  /// The tensor into which the backward pass writes the gradient. Must have the size and type of
  /// `value`. mark_ready() copies the tensor into the bucket, and finish() copies the average back.
  /// To avoid both copies, leave `gradient.data` null. The backward pass must then write into
  /// Reducer::gradient(), which is a part of the bucket.
  Tensor gradient = {};
};

/// Each size is in MB (2^20 bytes), above 0 and at most 1,000,000. All ranks need the same options.
struct ReducerOptions {
  double first_bucket_cap_mb = 1;    ///< size of the first bucket of each dtype
  double bucket_cap_mb = 25;         ///< size of all other buckets
  bool broadcast_parameters = true;  ///< if false, all ranks must already have the same values
};

/// Totals since construction, except fields marked "per step". Times are measured on this rank.
struct ReducerStats {
  std::size_t buckets = 0;           ///< per step
  std::size_t bytes = 0;             ///< of gradients, per step
  std::uint64_t steps = 0;           ///< finished steps, including failed ones
  double communication_seconds = 0;  ///< time in the backend, summed over the buckets
  double exposed_seconds = 0;        ///< time for which finish() blocked the trainer

  /// Returns the share of the communication time that overlapped with the backward pass, 0 to 1.
  double overlap() const;
};

/// Averages the gradients of one model over the ranks of a group, step by step. In each step, call
/// mark_ready() once for every parameter, then finish(). mark_ready() is thread-safe; the other
/// methods are called by one thread at a time.
class Reducer {
 public:
  /// Compares the parameters of all ranks. Then broadcasts the values of rank 0, unless
  /// `broadcast_parameters` is false. A collective operation: all ranks must construct their
  /// reducers at the same time. The constructor blocks until all ranks take part. The group must
  /// outlive the reducer. Between two steps, but not during a step, the caller may issue its own
  /// collectives on the group, in the same order on all ranks.
  ///
  /// Throws InvalidArgument on this rank if an option is out of range, a value is neither float32
  /// nor float64, or a shape or gradient does not fit its value. Throws InvalidArgument on every
  /// rank if the parameters differ between ranks; the text names the ranks and the difference.
  /// If a collective fails, throws the failure of the collective.
  Reducer(ProcessGroup& group, std::vector<Parameter> parameters, ReducerOptions options = {});

  /// Blocks until all issued collectives have ended. In a step, after mark_ready() and before
  /// finish(), aborts the group first: the other ranks would wait for this one.
  ~Reducer();

  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Returns the gradient's tensor: Parameter::gradient if its `data` is not null, otherwise a part
  /// of the bucket. The caller must not access the tensor between mark_ready() and the end of
  /// finish(). After finish() the tensor contains the average over all ranks, until the backward
  /// pass overwrites it. Throws InvalidArgument if there is no such parameter.
  Tensor gradient(std::size_t parameter) const;

  /// Reports that the gradient of this parameter is final in this step. Then issues the all-reduces
  /// of complete buckets, in the order of the buckets, and stops before the first incomplete
  /// bucket. Does not wait for communication. Parameters may be marked in any order and
  /// from any thread. Throws InvalidArgument if the parameter was already marked in this step, or
  /// if there is no such parameter.
  void mark_ready(std::size_t parameter);

  /// Ends the step: blocks until all gradients are averaged. If any parameter was not marked,
  /// throws InvalidArgument with the number of unmarked parameters and the names of the first few,
  /// and aborts the group with this text, so that the other ranks have it at once. A group of one
  /// rank goes on: the caller can mark these parameters and call finish() again. If a collective
  /// has failed, throws the failure of the collective. The group is then unusable.
  void finish();

  /// Returns the buckets in the order in which they are issued. All ranks have the same order.
  const std::vector<Bucket>& buckets() const;
  ReducerStats stats() const;  ///< thread-safe

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace c10dd::ddp
