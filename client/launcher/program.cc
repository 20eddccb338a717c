// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "client/internal/socket.h"
#include "client/launcher/options.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kPathShown = 1'000;

/// Returns 0 if the file can be executed, otherwise the errno value that says why not.
int why_not(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

[[noreturn]] void refuse(const std::string& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  std::string text =
      "cannot execute " + printable(path, kPathShown) + ": " + client::error_text(error);
  if (error == EACCES && path.ends_with(".py")) {
    text += "; leave out --no-python to run it with python3";
  } else if (error == EACCES) {
    text += "; make it executable with chmod +x";
  }
  throw Fatal(missing ? kNotFound : kNotExecutable, text);
}

}  // namespace

std::string find_program(const std::string& name, const std::string& search) {
  if (name.find('/') != std::string::npos) {
    if (const int error = why_not(name); error != 0) refuse(name, error);
    return name;
  }
  std::string found;  // a file of this name that cannot be executed
  int error = 0;      // why not
  std::istringstream folders(search);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = (folder.empty() ? "." : folder) + "/" + name;
    const int why = why_not(path);
    if (why == 0) return path;
    if (why == ENOENT || why == ENOTDIR || !found.empty()) continue;
    found = path;
    error = why;
  }
  if (!found.empty()) refuse(found, error);
  const bool is_here = access(name.c_str(), F_OK) == 0;
  throw Fatal(kNotFound, format("program {} not found; searched PATH={}{}",
                                printable(name, kPathShown), printable(search, kPathShown),
                                is_here ? "; to run the one in this folder, write ./" + name : ""));
}

void check_script(const std::string& path) {
  struct stat about {};
  int error = stat(path.c_str(), &about) != 0 ? errno : 0;
  if (error == 0 && S_ISDIR(about.st_mode)) error = EISDIR;
  if (error == 0 && access(path.c_str(), R_OK) != 0) error = errno;
  if (error == 0) return;
  throw Fatal(
      error == ENOENT || error == ENOTDIR ? kNotFound : kNotExecutable,
      "cannot read the script " + printable(path, kPathShown) + ": " + client::error_text(error));
}

}  // namespace c10dd::run
