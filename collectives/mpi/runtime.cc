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
  const std::lock_guard lock(runtime.mutex_);
  const Result<void> begun = runtime.begin();
  if (!begun) return begun.error();
  return &runtime;
}

Result<void> Runtime::begin() {
  if (abandoned_ > 0) {
    return failure(Code::unsupported, "mpi: an operation that failed is still inside MPI; {}",
                   kMustExit);
  }
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    return failure(Code::unsupported,
                   "mpi: MPI was ended in this process, and cannot be started again");
  }
  if (begun_) return {};
  int initialized = 0;
  MPI_Initialized(&initialized);
  int provided = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    const int result = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
    if (result != MPI_SUCCESS) return failure(Code::unsupported, "mpi: MPI_Init_thread failed");
    owned_ = true;
    std::atexit([] { end(); });
  } else {
    MPI_Query_thread(&provided);
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    return failure(Code::unsupported,
                   "mpi: MPI was started without MPI_THREAD_MULTIPLE; call MPI_Init_thread with "
                   "MPI_THREAD_MULTIPLE, or let c10dd start MPI");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  const char* const job = std::getenv("PMIX_NAMESPACE");
  job_ = job == nullptr ? "" : job;
  library_ = library_version();
  begun_ = true;
  return {};
}

void Runtime::end() noexcept {
  // MPI_Finalize would wait for an operation that never ends.
  if (instance().abandoned_ > 0) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

}  // namespace c10dd::collectives::mpi
