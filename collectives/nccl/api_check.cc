// SPDX-License-Identifier: Apache-2.0
// Compares the declarations of api.h and cuda_driver_api.h with NCCL's and CUDA's own headers, at
// compile time. Compiled only where these headers are found; contains no code.
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "collectives/nccl/api.h"
#include "collectives/nccl/cuda_driver_api.h"

namespace c10dd::collectives::nccl {
namespace {

/// Whether values of both types are passed alike: pointers, structures of one size, or numbers (and
/// enumerators) of one size.
template <class A, class B>
constexpr bool alike() {
  if (std::is_pointer_v<A> != std::is_pointer_v<B>) return false;
  return std::is_pointer_v<A> ||
         (sizeof(A) == sizeof(B) &&  // NOLINT(bugprone-sizeof-expression): structures and numbers
          std::is_class_v<A> == std::is_class_v<B>);
}

template <class Ours, class Theirs>
struct Same : std::false_type {};
template <class R, class... A, class S, class... B>
struct Same<R (*)(A...), S(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B)) return alike<R, S>() && (alike<A, B>() && ...);
    return false;
  }();
};

#define C10DD_SAME(table, member, theirs) \
  static_assert(Same<decltype(table::member), decltype(theirs)>::value, #theirs)

C10DD_SAME(Api, version, ncclGetVersion);
C10DD_SAME(Api, unique_id, ncclGetUniqueId);
C10DD_SAME(Api, init_rank_scalable, ncclCommInitRankScalable);
C10DD_SAME(Api, split, ncclCommSplit);
C10DD_SAME(Api, finalize, ncclCommFinalize);
C10DD_SAME(Api, destroy, ncclCommDestroy);
C10DD_SAME(Api, abort, ncclCommAbort);
C10DD_SAME(Api, async_error, ncclCommGetAsyncError);
C10DD_SAME(Api, error_text, ncclGetErrorString);
C10DD_SAME(Api, last_error, ncclGetLastError);
C10DD_SAME(Api, premul_sum, ncclRedOpCreatePreMulSum);
C10DD_SAME(Api, destroy_op, ncclRedOpDestroy);
C10DD_SAME(Api, all_reduce, ncclAllReduce);
C10DD_SAME(Api, reduce, ncclReduce);
C10DD_SAME(Api, broadcast, ncclBroadcast);
C10DD_SAME(Api, all_gather, ncclAllGather);
C10DD_SAME(Api, reduce_scatter, ncclReduceScatter);
C10DD_SAME(Api, send, ncclSend);
C10DD_SAME(Api, recv, ncclRecv);
C10DD_SAME(Api, group_start, ncclGroupStart);
C10DD_SAME(Api, group_end, ncclGroupEnd);

C10DD_SAME(CudaApi, init, cuInit);
C10DD_SAME(CudaApi, driver_version, cuDriverGetVersion);
C10DD_SAME(CudaApi, error_text, cuGetErrorString);
C10DD_SAME(CudaApi, device_count, cuDeviceGetCount);
C10DD_SAME(CudaApi, device, cuDeviceGet);
C10DD_SAME(CudaApi, device_name, cuDeviceGetName);
C10DD_SAME(CudaApi, bus_id, cuDeviceGetPCIBusId);
C10DD_SAME(CudaApi, retain_primary_context, cuDevicePrimaryCtxRetain);
C10DD_SAME(CudaApi, push_context, cuCtxPushCurrent);
C10DD_SAME(CudaApi, pop_context, cuCtxPopCurrent);
C10DD_SAME(CudaApi, create_stream, cuStreamCreate);
C10DD_SAME(CudaApi, destroy_stream, cuStreamDestroy);
C10DD_SAME(CudaApi, stream_wait, cuStreamWaitEvent);
C10DD_SAME(CudaApi, create_event, cuEventCreate);
C10DD_SAME(CudaApi, destroy_event, cuEventDestroy);
C10DD_SAME(CudaApi, record_event, cuEventRecord);
C10DD_SAME(CudaApi, query_event, cuEventQuery);
C10DD_SAME(CudaApi, allocate, cuMemAlloc);
C10DD_SAME(CudaApi, free, cuMemFree);
C10DD_SAME(CudaApi, allocate_host, cuMemAllocHost);
C10DD_SAME(CudaApi, free_host, cuMemFreeHost);
C10DD_SAME(CudaApi, copy, cuMemcpyAsync);
C10DD_SAME(CudaApi, clear, cuMemsetD8Async);

template <class A, class B>
constexpr bool equal(A ours, B theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

static_assert(equal(Status::success, ncclSuccess));
static_assert(equal(Status::unhandled_cuda_error, ncclUnhandledCudaError));
static_assert(equal(Status::system_error, ncclSystemError));
static_assert(equal(Status::internal_error, ncclInternalError));
static_assert(equal(Status::invalid_argument, ncclInvalidArgument));
static_assert(equal(Status::invalid_usage, ncclInvalidUsage));
static_assert(equal(Status::remote_error, ncclRemoteError));
static_assert(equal(Status::in_progress, ncclInProgress));
static_assert(equal(Type::int8, ncclInt8) && equal(Type::uint8, ncclUint8));
static_assert(equal(Type::int32, ncclInt32) && equal(Type::int64, ncclInt64));
static_assert(equal(Type::float16, ncclFloat16) && equal(Type::bfloat16, ncclBfloat16));
static_assert(equal(Type::float32, ncclFloat32) && equal(Type::float64, ncclFloat64));
static_assert(equal(Op::sum, ncclSum) && equal(Op::product, ncclProd) && equal(Op::avg, ncclAvg));
static_assert(equal(Op::max, ncclMax) && equal(Op::min, ncclMin));
static_assert(equal(Residence::device, ncclScalarDevice));
static_assert(equal(Residence::host, ncclScalarHostImmediate));
static_assert(equal(kNoColor, NCCL_SPLIT_NOCOLOR));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(Config::kUnset == NCCL_CONFIG_UNDEF_INT);

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#define C10DD_SAME_PLACE(ours, theirs) \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs))
C10DD_SAME_PLACE(size, size);
C10DD_SAME_PLACE(magic, magic);
C10DD_SAME_PLACE(version, version);
C10DD_SAME_PLACE(blocking, blocking);
C10DD_SAME_PLACE(cga_cluster_size, cgaClusterSize);
C10DD_SAME_PLACE(min_ctas, minCTAs);
C10DD_SAME_PLACE(max_ctas, maxCTAs);
C10DD_SAME_PLACE(net_name, netName);
C10DD_SAME_PLACE(split_share, splitShare);
C10DD_SAME_PLACE(traffic_class, trafficClass);
C10DD_SAME_PLACE(comm_name, commName);
C10DD_SAME_PLACE(collnet_enable, collnetEnable);
C10DD_SAME_PLACE(cta_policy, CTAPolicy);
C10DD_SAME_PLACE(shrink_share, shrinkShare);
C10DD_SAME_PLACE(nvls_ctas, nvlsCTAs);
C10DD_SAME_PLACE(channels_per_net_peer, nChannelsPerNetPeer);
C10DD_SAME_PLACE(nvlink_centric_sched, nvlinkCentricSched);
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0) ||
              sizeof(Config) == sizeof(ncclConfig_t));
constexpr ncclConfig_t kDefaults = NCCL_CONFIG_INITIALIZER;
static_assert(kDefaults.magic == Config{}.magic);
#endif

static_assert(equal(CudaStatus::success, CUDA_SUCCESS));
static_assert(equal(CudaStatus::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(equal(CudaStatus::no_device, CUDA_ERROR_NO_DEVICE));
static_assert(equal(CudaStatus::not_ready, CUDA_ERROR_NOT_READY));
static_assert(std::is_same_v<CudaAddress, CUdeviceptr>);
static_assert(equal(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(equal(kEventDisableTiming, CU_EVENT_DISABLE_TIMING));

}  // namespace
}  // namespace c10dd::collectives::nccl
