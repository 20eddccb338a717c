// SPDX-License-Identifier: Apache-2.0
// Runtime: the MPI library in this process.
#pragma once

#include <mpi.h>

#include <atomic>
#include <mutex>
#include <string>

#include "client/internal/fork_guard.h"
#include "protocol/error.h"

namespace c10dd::collectives::mpi {

/// Starts MPI at the first use, unless the program has done so. Then ends it at exit, unless an
/// operation is inside MPI. Thread-safe.
class Runtime {
 public:
  /// Returns the Runtime of this process. Fails with `unsupported` if MPI cannot be used: the
  /// program has started it without MPI_THREAD_MULTIPLE, has ended it, was forked from the process
  /// that has started it, or an operation that was abandoned is still inside MPI.
  static Result<Runtime*> start();

  int rank() const { return rank_; }                       ///< in MPI_COMM_WORLD
  int size() const { return size_; }                       ///< of MPI_COMM_WORLD
  const std::string& job() const { return job_; }          ///< equal on all processes of one mpirun
  const std::string& library() const { return library_; }  ///< name and version

  /// Counts an operation that is about to enter MPI, which is then not ended at exit. Returns false
  /// if MPI has been ended, or if this is a forked process: the operation must not enter.
  bool enter();
  /// An operation that was counted by enter() needs MPI no more.
  void leave() { --inside_; }

  /// Returns whether MPI_Finalize was called, after which hardly any other call is allowed.
  static bool finalized();

  /// Counts the threads inside MPI that nobody waits for any more.
  void abandon() { ++abandoned_; }
  /// A thread that was counted by abandon() has returned.
  void return_abandoned() { --abandoned_; }

  /// The advice of each error after which an operation is still inside MPI.
  static constexpr const char* kMustExit =
      "MPI cannot cancel a started operation, so this process can no longer use MPI and must exit";

 private:
  Result<void> begin();
  static void end() noexcept;

  static Runtime& instance();

  const client::HomeProcess home_;
  std::mutex mutex_;
  bool ended_ = false;  // end() has decided to end MPI
  bool begun_ = false;
  bool owned_ = false;  // this object has started MPI, and ends it
  int rank_ = 0;
  int size_ = 1;
  std::string job_;
  std::string library_;
  std::atomic<int> inside_ = 0;
  std::atomic<int> abandoned_ = 0;
};

}  // namespace c10dd::collectives::mpi
