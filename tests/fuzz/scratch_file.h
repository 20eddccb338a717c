// SPDX-License-Identifier: Apache-2.0
// A file that is only in memory, under a path that the code under test can open.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::fuzz {

class ScratchFile {
 public:
  ScratchFile() : file_(::memfd_create("fuzz", MFD_CLOEXEC)) { C10DD_ASSERT(file_ >= 0); }
  ~ScratchFile() { ::close(file_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void write(std::string_view bytes) {
    C10DD_ASSERT(::ftruncate(file_, 0) == 0);
    C10DD_ASSERT(::pwrite(file_, bytes.data(), bytes.size(), 0) ==
                 static_cast<ssize_t>(bytes.size()));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace c10dd::fuzz
