// SPDX-License-Identifier: Apache-2.0
// The store kinds over PyTorch's own TCPStore servers: Debian's PyTorch 1.13, and the newest, which
// `./dev torch newest` installs. They are a list of their own, because the import takes seconds.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/unit/client/store_kinds.h"

namespace c10dd::test {
namespace {

// For each line of its input, starts a server and prints the port.
constexpr const char* kProgram = R"(
import sys
from torch.distributed import TCPStore
stores = []
for line in sys.stdin:
    stores.append(TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False))
    print(stores[-1].port, flush=True)
)";

/// A Python process with servers. It is ended by its pid, and by the kernel if the test dies.
class TorchServers {
 public:
  explicit TorchServers(const std::string& python) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe(in.data()) != 0 || ::pipe(out.data()) != 0) throw std::runtime_error("pipe");
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      for (const int end : {in[0], in[1], out[0], out[1]}) ::close(end);
      ::setenv("OMP_NUM_THREADS", "1", 1);
      ::execl(python.c_str(), python.c_str(), "-c", kProgram, nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    questions_ = ::fdopen(in[1], "w");
    ports_ = ::fdopen(out[0], "r");
  }
  ~TorchServers() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::fclose(questions_);
    std::fclose(ports_);
  }
  TorchServers(const TorchServers&) = delete;

  /// Starts a server, and returns its port; empty if there is no PyTorch.
  std::string start() {
    std::array<char, 64> line{};
    std::fputs("start\n", questions_);
    std::fflush(questions_);
    if (std::fgets(line.data(), line.size(), ports_) == nullptr) return {};
    std::string port = line.data();
    port.pop_back();
    return port;
  }

 private:
  pid_t pid_;
  FILE* questions_;
  FILE* ports_;
};

std::string text_of(const char* variable, const std::string& otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : otherwise;
}

StoreKind torch(const std::string& name, const std::string& python, std::set<std::string> lacks) {
  const auto port = std::make_shared<std::string>();
  const auto start = [python, port] {
    static TorchServers servers(python);
    *port = servers.start();
  };
  const auto open = [port] { return open_store("tcp://127.0.0.1:" + *port); };
  StoreKind kind;
  kind.name = name;
  kind.make = [start, open] {
    start();
    return open();
  };
  kind.again = open;
  kind.absent = [start, port, python] {
    if (port->empty() && ::access(python.c_str(), X_OK) == 0) start();
    return port->empty() ? "PyTorch is not installed for " + python : "";
  };
  kind.lacks = std::move(lacks);
  return kind;
}

}  // namespace

const std::vector<StoreKind>& store_kinds() {
  static const std::string cache = text_of("XDG_CACHE_HOME", text_of("HOME", "") + "/.cache");
  static const std::vector<StoreKind> kinds = {
      torch("tcp_of_torch_1_13", text_of("C10DD_TORCH_PYTHON", "/usr/bin/python3"),
            {"append", "multi", "list", "remove_prefix", "queues", "strict_add"}),
      torch("tcp_of_torch_newest", cache + "/c10dd/torch/newest/bin/python",
            {"remove_prefix", "strict_add"})};
  return kinds;
}

}  // namespace c10dd::test
