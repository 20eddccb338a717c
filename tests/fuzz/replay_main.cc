// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of a folder, each also cut at every length and with every byte
// flipped once: a normal build keeps its fuzz targets honest without libFuzzer.
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

std::size_t inputs = 0;

void feed(const std::string& bytes, std::size_t size) {
  // A copy of exactly this size, so that the address sanitizer sees a read past its end.
  const std::vector<std::uint8_t> exact(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  ++inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t size = 0; size <= bytes.size(); ++size) feed(bytes, size);
    for (char& c : bytes) {
      const char before = c;
      for (const int flip : {0x01, 0x80, 0xFF}) {
        c = static_cast<char>(before ^ flip);
        feed(bytes, bytes.size());
      }
      c = before;
    }
  }
  std::printf("%zu files, %zu inputs\n", paths.size(), inputs);
  return paths.empty() ? 1 : 0;
}
