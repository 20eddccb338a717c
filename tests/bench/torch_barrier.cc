// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/torch_barrier.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace c10dd::bench {
namespace {

constexpr unsigned kRanksMax = 1'000;  // a thread and a connection each
constexpr int kSkip = 77;

// Prints the nanoseconds of each barrier. Without a single quote: it is an argument of the shell.
constexpr const char* kBarrierScript = R"(
import sys, threading, time
try:
    from torch.distributed import TCPStore
except ImportError as e:
    print(e)
    sys.exit(77)
ranks, seconds = int(sys.argv[1]), float(sys.argv[2])
server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
gate = threading.Barrier(ranks + 1)
begun, ended, going = [0] * ranks, [0] * ranks, True
def live(rank):
    store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    number = 0
    while True:
        gate.wait()
        if not going:
            return
        begun[rank] = time.perf_counter_ns()
        if store.add("count/%d" % number, 1) == ranks:
            store.set("done/%d" % number, "1")
        store.wait(["done/%d" % number])
        ended[rank] = time.perf_counter_ns()
        number += 1
        gate.wait()
for rank in range(ranks):
    threading.Thread(target=live, args=(rank,), daemon=True).start()
until = None
while until is None or time.monotonic() < until:
    gate.wait()
    gate.wait()
    if until is None:
        until = time.monotonic() + seconds
    else:
        print(max(ended) - min(begun))
going = False
gate.wait()
)";

}  // namespace

TorchBarriers meet_in_torch(unsigned ranks, double seconds) {
  TorchBarriers found;
  if (ranks > kRanksMax) {
    found.skipped = "torch with more than " + std::to_string(kRanksMax) + " ranks";
    return found;
  }
  const std::string command = std::string("exec /usr/bin/python3 -c '") + kBarrierScript + "' " +
                              std::to_string(ranks) + " " + std::to_string(seconds) + " 2>&1";
  FILE* const output = ::popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("torch: cannot start python3");
  std::string last;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr) {
    last = line.data();
    last.erase(last.find_last_not_of('\n') + 1);
    char* end = nullptr;
    const long long took = std::strtoll(line.data(), &end, 10);
    if (*end != '\n' || took <= 0) continue;
    found.took.add(took);
    found.total += static_cast<double>(took) * 1e-9;
  }
  const int status = ::pclose(output);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkip) {
    found.skipped = "torch: " + last;
  } else if (status != 0) {
    throw std::runtime_error("torch: " + last);
  }
  return found;
}

}  // namespace c10dd::bench
