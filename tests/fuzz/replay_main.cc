// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of folders, each also cut at many lengths and with many bytes
// changed: a normal build keeps its fuzz targets honest without libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kPlaces = 64;  // of a file that is cut and changed there

std::size_t inputs = 0;

void feed(const std::string& bytes, std::size_t size) {
  // A copy of exactly this size, so that the address sanitizer sees a read past its end.
  const std::vector<std::uint8_t> exact(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  ++inputs;
}

void replay(std::string bytes) {
  feed(bytes, bytes.size());
  const std::size_t stride = bytes.size() / kPlaces + 1;
  for (std::size_t at = 0; at < bytes.size(); at += stride) {
    feed(bytes, at);
    const char before = bytes[at];
    for (const int flip : {0x01, 0x80, 0xFF}) {
      bytes[at] = static_cast<char>(before ^ flip);
      feed(bytes, bytes.size());
    }
    bytes[at] = before;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> paths;
  for (int n = 1; n < argc; ++n) {
    if (!std::filesystem::is_directory(argv[n])) continue;  // not every target has both
    for (const auto& entry : std::filesystem::directory_iterator(argv[n])) {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    replay({std::istreambuf_iterator<char>(file), {}});
  }
  std::printf("%zu files, %zu inputs\n", paths.size(), inputs);
  return paths.empty() ? 1 : 0;
}
