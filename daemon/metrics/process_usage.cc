// SPDX-License-Identifier: Apache-2.0
// Reads only what stays readable under systemd's ProcSubset=pid: /proc/self and getrlimit().
#include "daemon/metrics/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

namespace c10dd::daemon {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

double open_descriptors() {
  std::error_code failed;
  double count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
       at.increment(failed)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;  // the iterator's own descriptor does not count
}

}  // namespace

ProcessUsage process_usage() {
  ProcessUsage usage;
  rusage times{};
  if (::getrusage(RUSAGE_SELF, &times) == 0) {
    usage.cpu_seconds = seconds(times.ru_utime) + seconds(times.ru_stime);
  }
  double pages = 0;
  double resident_pages = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident_pages) {
    usage.resident_bytes = resident_pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  }
  usage.open_fds = open_descriptors();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    usage.max_fds = limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<double>::infinity()
                                                    : static_cast<double>(limit.rlim_cur);
  }
  return usage;
}

}  // namespace c10dd::daemon
