// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/access_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/config/file_text.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

Result<FileText> read_file(const std::string& path) {
  struct stat is {};
  if (::stat(path.c_str(), &is) == 0 && !S_ISREG(is.st_mode)) {
    return failure(Code::invalid_argument, "{}: this is no regular file; it could block the daemon",
                   path);
  }
  Result<std::string> text = file_text(path, path);
  if (!text && ::access(path.c_str(), R_OK) != 0 && errno == EACCES) {
    return failure(Code::invalid_argument,
                   "{}; let user {} read it, in Kubernetes by fsGroup in the Pod's securityContext",
                   text.error().detail, ::getuid());
  }
  if (!text) return text.error();
  return FileText{path, std::move(*text)};
}

/// Fails if every user of the machine may read a key.
Result<void> check_mode(const std::string& path) {
  struct stat is {};
  const bool open = ::stat(path.c_str(), &is) == 0 && (is.st_mode & (S_IROTH | S_IWOTH)) != 0;
  if (!open) return {};
  return failure(Code::invalid_argument, "{}: every user may read this key; {}", path,
                 close_to_others(path));
}

}  // namespace

std::vector<std::string> AccessFiles::paths() const {
  std::vector<std::string> all = {folder_ + "/tls.crt", folder_ + "/tls.key", folder_ + "/ca.crt"};
  if (!grants_.empty()) all.push_back(grants_);
  all.insert(all.end(), jwks_.begin(), jwks_.end());
  return all;
}

Result<AccessTexts> AccessFiles::read() {
  struct stat is {};
  if (::stat(folder_.c_str(), &is) != 0 || !S_ISDIR(is.st_mode)) {
    return failure(Code::invalid_argument,
                   "{}: there is no such folder; make one with c10ddctl ca init, or copy tls.crt, "
                   "tls.key and ca.crt to it",
                   folder_);
  }
  if (::stat((folder_ + "/tls.crt").c_str(), &is) != 0 &&
      ::stat((folder_ + "/daemon/tls.crt").c_str(), &is) == 0) {
    return failure(Code::invalid_argument,
                   "{}: this is the folder of a CA; use {}/daemon, which has the daemon's files",
                   folder_, folder_);
  }
  AccessTexts texts;
  jwks_.clear();
  const std::vector<std::string> own = paths();
  if (Result<void> good = check_mode(own[1]); !good) return good.error();
  for (const auto& [path, into] :
       {std::pair(&own[0], &texts.chain), {&own[1], &texts.key}, {&own[2], &texts.ca}}) {
    Result<FileText> file = read_file(*path);
    if (!file) return file.error();
    *into = std::move(*file);
  }
  if (grants_.empty()) return texts;
  const Result<FileText> file = read_file(grants_);
  if (!file) return file.error();
  Result<GrantsFile> grants = grants_in(file->text, file->path);
  if (!grants) return grants.error();
  texts.grants = std::move(*grants);
  for (const IssuerEntry& issuer : texts.grants.issuers) jwks_.push_back(issuer.jwks);
  for (const std::string& path : jwks_) {
    Result<FileText> keys = read_file(path);
    if (!keys) return keys.error();
    texts.jwks.push_back(std::move(*keys));
  }
  return texts;
}

std::string AccessFiles::state() const {
  std::string all;
  for (const std::string& path : paths()) {
    struct stat is {};
    if (::stat(path.c_str(), &is) != 0) {
      all += "none\n";
      continue;
    }
    all += format("{} {} {} {}.{}\n", is.st_dev, is.st_ino, is.st_size, is.st_mtim.tv_sec,
                  is.st_mtim.tv_nsec);
  }
  return all;
}

}  // namespace c10dd::daemon
