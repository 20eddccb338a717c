// SPDX-License-Identifier: Apache-2.0
// Stand-ins for libcuda.so.1 and libnccl.so.2, only for unit tests: memory of the host is memory of
// a device, and the ranks are threads of one process, each with a device of its own. Controls what
// they do, and tells what they were asked for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace c10dd::stand_in {

/// What the stand-in for CUDA's driver does.
struct CudaControl {
  std::atomic<int> devices = 8;      ///< cuDeviceGetCount
  std::atomic<int> init_status = 0;  ///< what cuInit returns
  std::atomic<int> memory_left = 0;  ///< if above 0: so many allocations succeed, later ones fail
  std::atomic<bool> frees_hang = false;  ///< cuMemFree waits, as for an operation that hangs
};
CudaControl& cuda_control();

/// Puts a function on a stream, whose thread calls it in its turn. A null stream is the default one
/// of the device whose context is current.
void put_on_stream(void* stream, std::function<void()> task);

/// The same, on the default stream of a device.
void put_on_default_stream(int device, std::function<void()> task);

/// Returns the index of the device whose context is current on this thread, or -1.
int current_device();

/// One communicator that was made.
struct MadeComm {
  int rank;
  int ranks;
  int ids;           ///< 0: it was made by a split
  std::string name;  ///< Config::comm_name
  int blocking;
  int device;  ///< that was current
};

/// What the stand-in for NCCL does, and what it was asked for.
struct NcclControl {
  std::atomic<int> version = 22809;
  /// How many calls of ncclCommGetAsyncError return ncclInProgress before a call takes effect.
  std::atomic<int> polls_in_progress = 0;
  std::atomic<bool> stuck = false;  ///< operations that are issued from now on never end
  /// What ncclCommGetAsyncError returns for communicators of this rank of their groups.
  std::atomic<int> failing_rank = -1;
  std::atomic<int> async_status = 6;  ///< ncclRemoteError
  std::atomic<int> issue_status = 0;  ///< if not 0: what a call that issues an operation returns
  std::atomic<bool> never_connects = false;  ///< ncclCommInitRankScalable stays in progress
  /// How long ncclCommAbort takes. It also waits until all communicators of its device that have an
  /// operation that is stuck are being aborted, as the real one does.
  std::atomic<int> abort_ms = 0;
  std::atomic<bool> aborts_hang = false;  ///< ncclCommAbort waits until it is false

  std::atomic<int> live_comms = 0;  ///< that were neither destroyed nor aborted
  std::atomic<int> ids_made = 0;
  std::atomic<int> aborts_begun = 0;
  std::atomic<int> aborts_ended = 0;
  std::atomic<int> finalized = 0;
  std::atomic<int> destroyed = 0;
  std::atomic<int> groups = 0;      ///< outermost pairs of ncclGroupStart and ncclGroupEnd
  std::atomic<int> operations = 0;  ///< calls that have issued an operation
  std::atomic<int> made_ops = 0;    ///< that ncclRedOpCreatePreMulSum has made
  std::atomic<int> destroyed_ops = 0;
  std::atomic<int> calls_in_progress = 0;  ///< wrong: made while the communicator was in progress

  std::vector<MadeComm> made() {
    const std::lock_guard lock(mutex);
    return comms;
  }
  std::mutex mutex;
  std::vector<MadeComm> comms;
};
NcclControl& nccl_control();

}  // namespace c10dd::stand_in
