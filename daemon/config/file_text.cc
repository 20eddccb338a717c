// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/file_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "protocol/format.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kFileBytes = 1024 * 1024;

}  // namespace

Result<std::string> file_text(const std::string& path, const std::string& what) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    return failure(Code::invalid_argument, "{}: cannot read this file: {}", what,
                   std::strerror(errno));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() <= kFileBytes) return text;
  return failure(Code::invalid_argument, "{}: this file is longer than the limit of {} bytes", what,
                 kFileBytes);
}

}  // namespace c10dd::daemon
