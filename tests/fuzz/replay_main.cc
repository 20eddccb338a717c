// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of folders, each also cut at many lengths and with many bytes
// changed: a normal build keeps its fuzz targets honest without libFuzzer.
//
//     fuzz_replay TARGET FOLDER...
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

using c10dd::fuzz::Target;
using c10dd::fuzz::targets;

constexpr std::size_t kPlaces = 64;  // of a file that is cut and changed there

std::size_t inputs = 0;

void feed(Target target, const std::string& bytes, std::size_t size) {
  // A copy of exactly this size, so that the address sanitizer sees a read past its end.
  const std::vector<std::uint8_t> exact(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(size));
  target(exact.data(), exact.size());
  ++inputs;
}

void replay(Target target, std::string bytes) {
  feed(target, bytes, bytes.size());
  const std::size_t stride = bytes.size() / kPlaces + 1;
  for (std::size_t at = 0; at < bytes.size(); at += stride) {
    feed(target, bytes, at);
    const char before = bytes[at];
    for (const int flip : {0x01, 0x80, 0xFF}) {
      bytes[at] = static_cast<char>(before ^ flip);
      feed(target, bytes, bytes.size());
    }
    bytes[at] = before;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto found = targets().find(argc > 1 ? argv[1] : "");
  if (found == targets().end()) {
    std::fputs("usage: fuzz_replay TARGET FOLDER...\ntargets:", stderr);
    for (const auto& [name, target] : targets()) std::fprintf(stderr, " %s", name.c_str());
    std::fputs("\n", stderr);
    return 64;
  }
  std::vector<std::filesystem::path> paths;
  for (int n = 2; n < argc; ++n) {
    if (!std::filesystem::is_directory(argv[n])) continue;  // not every target has both
    for (const auto& entry : std::filesystem::directory_iterator(argv[n])) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    replay(found->second, {std::istreambuf_iterator<char>(file), {}});
  }
  std::printf("%zu files, %zu inputs\n", paths.size(), inputs);
  return paths.empty() ? 1 : 0;
}
