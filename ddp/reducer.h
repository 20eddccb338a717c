// SPDX-License-Identifier: Apache-2.0
// Reducer: averages gradients over the ranks of a process group while backward still runs. The
// trainer says when each gradient is ready; a bucket is all-reduced as soon as it is full and all
// earlier buckets are on their way, so every rank issues the same collectives in the same order.
// Standard library only.
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

struct Parameter {
  std::string name;
  Tensor value;  ///< the weights, float32 or float64; written at construction only
  /// Its product is the number of elements; compared between ranks. None: one element.
  std::vector<std::size_t> shape = {};
  /// Where backward leaves the gradient. By default (no data) that is the parameter's place in its
  /// bucket, Reducer::gradient(), which saves both copies. Otherwise mark_ready() copies it into
  /// the bucket and finish() copies the average back.
  Tensor gradient = {};
};

struct ReducerOptions {
  double first_bucket_cap_mb = 1;
  double bucket_cap_mb = 25;
  bool broadcast_parameters = true;  ///< false: the caller has made them equal on all ranks
};

/// Totals since construction. Times are this rank's.
struct ReducerStats {
  std::size_t buckets = 0;  ///< per step
  std::size_t bytes = 0;    ///< of gradients, per step
  std::uint64_t steps = 0;
  double communication_seconds = 0;  ///< spent in the backend
  double exposed_seconds = 0;        ///< of it, while finish() blocked the trainer

  /// 1: all communication hidden behind backward; 0: none.
  double overlap() const;
};

class Reducer {
 public:
  /// All ranks construct together. Throws InvalidArgument for a parameter of integers, or whose
  /// shape or gradient does not fit its value. Compares the parameters of all ranks and throws
  /// InvalidArgument that names the differing ranks and the first differing parameter, on every
  /// rank; then broadcasts the values of rank 0. The group must outlive the reducer.
  Reducer(ProcessGroup& group, std::vector<Parameter> parameters, ReducerOptions options = {});
  ~Reducer();  ///< waits for what is under way

  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// The gradient's memory: a view into the bucket, or what the parameter brought along. Between
  /// mark_ready() and finish() it must not be touched; after finish() it holds the average.
  Tensor gradient(std::size_t parameter) const;

  /// The gradient of this parameter is final. Once per step and parameter, in any order, from any
  /// thread. Throws InvalidArgument when marked twice or out of range.
  void mark_ready(std::size_t parameter);

  /// At the end of backward, from one thread: blocks until all gradients are averaged. Throws
  /// InvalidArgument that names the parameters that were never marked (they may be marked then,
  /// and finish() called again), or what made a collective fail; the group is dead then.
  void finish();

  const std::vector<Bucket>& buckets() const;
  ReducerStats stats() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace c10dd::ddp
