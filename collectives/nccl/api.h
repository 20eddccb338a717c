// SPDX-License-Identifier: Apache-2.0
// The part of NCCL's interface that c10dd uses, declared by c10dd itself: so it is compiled without
// NCCL, and one binary runs with and without NCCL. Where nccl.h is found at build time,
// api_check.cc compares these declarations with it.
#pragma once

#include <climits>
#include <cstddef>

namespace c10dd::collectives::nccl {

using Comm = struct Communicator*;

/// What functions of NCCL return. Other values are failures, too.
enum class Status : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,  ///< a peer has ended or is unreachable
  in_progress = 7,   ///< of a non-blocking communicator: call async_error() until it ends
};

enum class Type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

/// One of these, or a number that premul_sum() has made.
enum class Op : int { sum = 0, product = 1, max = 2, min = 3, avg = 4 };

/// Where the factor of premul_sum() is.
enum class Residence : int { device = 0, host = 1 };

struct UniqueId {
  char bytes[128];
};

/// The color of a rank that is in no part of a split.
inline constexpr int kNoColor = -1;

/// Options of a communicator. NCCL reads no further than its own version knows. A field that is
/// kUnset has NCCL's default.
struct Config {
  static constexpr int kUnset = INT_MIN;

  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 22800;  // the version of this declaration, 2.28.0
  int blocking = 0;
  int cga_cluster_size = kUnset;
  int min_ctas = kUnset;
  int max_ctas = kUnset;
  const char* net_name = nullptr;
  int split_share = kUnset;
  int traffic_class = kUnset;
  const char* comm_name = nullptr;
  int collnet_enable = kUnset;
  int cta_policy = kUnset;
  int shrink_share = kUnset;
  int nvls_ctas = kUnset;
  int channels_per_net_peer = kUnset;
  int nvlink_centric_sched = kUnset;
};

/// NCCL's functions. `stream` is a CUstream. Null if NCCL was not loaded.
struct Api {
  Status (*version)(int* version);
  Status (*unique_id)(UniqueId* id);
  Status (*init_rank_scalable)(Comm* comm, int ranks, int rank, int id_count, UniqueId* ids,
                               Config* config);
  Status (*split)(Comm comm, int color, int key, Comm* child, Config* config);
  Status (*finalize)(Comm comm);
  Status (*destroy)(Comm comm);
  Status (*abort)(Comm comm);
  Status (*async_error)(Comm comm, Status* status);
  const char* (*error_text)(Status status);
  const char* (*last_error)(Comm comm);
  Status (*premul_sum)(Op* op, void* factor, Type type, Residence residence, Comm comm);
  Status (*destroy_op)(Op op, Comm comm);
  Status (*all_reduce)(const void* from, void* to, std::size_t count, Type type, Op op, Comm comm,
                       void* stream);
  Status (*reduce)(const void* from, void* to, std::size_t count, Type type, Op op, int root,
                   Comm comm, void* stream);
  Status (*broadcast)(const void* from, void* to, std::size_t count, Type type, int root, Comm comm,
                      void* stream);
  Status (*all_gather)(const void* from, void* to, std::size_t count_per_rank, Type type, Comm comm,
                       void* stream);
  Status (*reduce_scatter)(const void* from, void* to, std::size_t count_per_rank, Type type, Op op,
                           Comm comm, void* stream);
  Status (*send)(const void* from, std::size_t count, Type type, int peer, Comm comm, void* stream);
  Status (*recv)(void* to, std::size_t count, Type type, int peer, Comm comm, void* stream);
  Status (*group_start)();
  Status (*group_end)();
};

/// Calls f(name of the symbol, pointer to the member) for each function. Those before
/// init_rank_scalable are in every version of NCCL.
template <class F>
constexpr void each_function(F f) {
  f("ncclGetVersion", &Api::version);
  f("ncclGetUniqueId", &Api::unique_id);
  f("ncclCommInitRankScalable", &Api::init_rank_scalable);
  f("ncclCommSplit", &Api::split);
  f("ncclCommFinalize", &Api::finalize);
  f("ncclCommDestroy", &Api::destroy);
  f("ncclCommAbort", &Api::abort);
  f("ncclCommGetAsyncError", &Api::async_error);
  f("ncclGetErrorString", &Api::error_text);
  f("ncclGetLastError", &Api::last_error);
  f("ncclRedOpCreatePreMulSum", &Api::premul_sum);
  f("ncclRedOpDestroy", &Api::destroy_op);
  f("ncclAllReduce", &Api::all_reduce);
  f("ncclReduce", &Api::reduce);
  f("ncclBroadcast", &Api::broadcast);
  f("ncclAllGather", &Api::all_gather);
  f("ncclReduceScatter", &Api::reduce_scatter);
  f("ncclSend", &Api::send);
  f("ncclRecv", &Api::recv);
  f("ncclGroupStart", &Api::group_start);
  f("ncclGroupEnd", &Api::group_end);
}

}  // namespace c10dd::collectives::nccl
