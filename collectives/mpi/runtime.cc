// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/runtime.h"

#include <cstdlib>

#include "collectives/mpi/calls.h"
#include "protocol/format.h"

namespace c10dd::collectives::mpi {
namespace {

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace

Runtime& Runtime::instance() {
  static Runtime* const runtime = new Runtime;  // threads may use it while the process exits
  return *runtime;
}

Result<Runtime*> Runtime::start() {
  Runtime& runtime = instance();
  if (runtime.home_.forked()) {
    return failure(
        Code::unsupported,
        "mpi: this process was forked from a process that may use MPI, and cannot use MPI "
        "itself; start it with exec");
  }
  const std::lock_guard lock(runtime.mutex_);
  const Result<void> begun = runtime.begin();
  if (!begun) return begun.error();
  return &runtime;
}

Result<void> Runtime::begin() {
  if (abandoned_ > 0) {
    return failure(Code::unsupported, "mpi: a failed operation is still running inside MPI; {}",
                   kMustExit);
  }
  if (finalized()) {
    return failure(Code::unsupported,
                   "mpi: MPI was finalized in this process and cannot be initialized again");
  }
  if (begun_) return {};
  int initialized = 0;
  MPI_Initialized(&initialized);
  int provided = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (result != MPI_SUCCESS) return failure(Code::unsupported, "mpi: MPI_Init_thread failed");
    owned_ = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // it would end the process
    std::atexit([] { end(); });
  } else {
    MPI_Query_thread(&provided);
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    return failure(
        Code::unsupported,
        "mpi: MPI was initialized without MPI_THREAD_MULTIPLE; call MPI_Init_thread with "
        "MPI_THREAD_MULTIPLE, or let c10dd initialize MPI");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  const char* const job = std::getenv("PMIX_NAMESPACE");
  job_ = job == nullptr ? "" : job;
  library_ = library_version();
  begun_ = true;
  return {};
}

bool Runtime::finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

bool Runtime::enter() {
  if (home_.forked()) return false;
  const std::lock_guard lock(mutex_);
  if (ended_ || finalized()) return false;
  ++inside_;
  return true;
}

void Runtime::end() noexcept {
  Runtime& runtime = instance();
  if (runtime.home_.forked()) return;  // MPI is the parent's
  {
    const std::lock_guard lock(runtime.mutex_);
    // MPI_Finalize would wait for what is inside MPI, or run beside a thread that calls MPI.
    if (runtime.inside_ > 0 || runtime.abandoned_ > 0) return;
    runtime.ended_ = true;
  }
  if (!finalized()) MPI_Finalize();
}

}  // namespace c10dd::collectives::mpi
