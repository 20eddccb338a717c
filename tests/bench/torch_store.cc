// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/torch_store.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace c10dd::bench {
namespace {

constexpr const char* kStoreScript = R"(
import signal, sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False%s)
print(store.port, flush=True)
signal.pause()
)";

/// Returns true if the interpreter has PyTorch, of a version that begins with this.
bool has_torch(const std::string& python, const std::string& version) {
  if (!std::filesystem::exists(python)) return false;
  const std::string command =
      "'" + python + "' -c 'import torch.distributed; assert torch.__version__.startswith(\"" +
      version + "\")' 2>/dev/null";
  return std::system(command.c_str()) == 0;  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

std::string cache() {
  const char* const set = std::getenv("XDG_CACHE_HOME");
  if (set != nullptr && *set != '\0') return set;
  const char* const home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache";
}

}  // namespace

std::vector<TorchStoreKind> torch_stores() {
  std::vector<TorchStoreKind> found;
  const std::string newest = cache() + "/c10dd/torch/newest/bin/python";
  if (has_torch(newest, "")) {
    found.push_back({"torch, poll", newest, ", use_libuv=False"});
    found.push_back({"torch, libuv", newest, ", use_libuv=True"});
  }
  const std::string debian = "/usr/bin/python3";
  if (has_torch(debian, "1.13.")) {
    found.push_back({"torch 1.13.1 poll", debian, "", tcpstore::Dialect::l0});
  }
  return found;
}

TorchStoreServer::TorchStoreServer(const TorchStoreKind& kind) {
  std::string script = kStoreScript;
  script.replace(script.find("%s"), 2, kind.choice);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) fail_with_errno("pipe");
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  child_ = std::make_unique<Child>([&] {
    ::dup2(write_end.get(), STDOUT_FILENO);
    // The servers look up the name of each client that connects, one after the other. Where no name
    // server answers, that takes 5 s each; so they must not ask any.
    ::setenv("RES_OPTIONS", "attempts:0", 1);
    become({kind.python, "-c", script});
  });
  write_end = Descriptor();
  port_ = static_cast<std::uint16_t>(std::stoi(first_line(kind.name, read_end)));
}

}  // namespace c10dd::bench
