// SPDX-License-Identifier: Apache-2.0
// Makes the system calls of the file store. A writer that fails to write a whole record cuts off
// the written part at once. If a writer is killed in the middle of a record, the next writer cuts
// off the written part.
#include "client/stores/file_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "protocol/format.h"
#include "protocol/random.h"
#include "protocol/utf8.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kChunkBytes = 1024 * 1024;  // read or compacted at once
constexpr std::uint64_t kCompactBytes = 1024 * 1024;
constexpr Duration kFirstPause = std::chrono::microseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(5);
constexpr std::size_t kPathTextBytes = 200;

Code code_of(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::disk_full;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return Code::invalid_argument;
    case ENOLCK:
    case EOPNOTSUPP:
      return Code::unsupported;
    default:
      return Code::unavailable;
  }
}

std::uint64_t new_id() {
  // The id must not be 0, because FileLog::id_ == 0 means that no file was read.
  return random_number() | 1;
}

/// Reads `bytes` bytes, or up to the end of the file if the file is shorter. After an error,
/// returns nothing and sets errno.
std::optional<Bytes> read_at(int file, std::uint64_t offset, std::size_t bytes) {
  Bytes out(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(file, out.data() + got, bytes - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  out.resize(got);
  return out;
}

/// Writes all bytes. Returns 0 or, after an error, the errno value.
int write_at(int file, std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return 0;
}

}  // namespace

Failure FileLog::named(Failure reason) const {
  reason.detail = format("file store {}: {}", printable(path_, kPathTextBytes), reason.detail);
  return reason;
}

Failure FileLog::failed(const std::string& what, int error) const {
  return named(failure(code_of(error), "{}: {}", what, error_text(error)));
}

// ---- turns -------------------------------------------------------------------------------------

FileLog::Turn::~Turn() {
  // Unlocks explicitly. Closing the file is not enough: a forked child may have inherited the
  // descriptor, and would keep the lock.
  if (file_) flock(file_.get(), LOCK_UN);
}

Result<void> FileLog::take_lock(int file, Lock lock, Deadline deadline) const {
  const int how = (lock == Lock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB;
  Duration pause = kFirstPause;
  while (flock(file, how) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      return failed("cannot lock the file (its file system must support flock)", errno);
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return named(failure(Code::timed_out,
                           "another process has held the lock of the file for too long; check the "
                           "processes that have the file open"));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  return {};
}

/// Opens the file and locks it. If another process replaces the file between the two steps, tries
/// again, until the path leads to the locked file.
Result<FileLog::Turn> FileLog::lock(int flags, Lock lock, Deadline deadline) const {
  for (;;) {
    Turn turn;
    turn.file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | flags, 0666));
    if (!turn.file_) return failed("cannot open the file", errno);
    struct stat opened {};
    struct stat named_now {};
    if (fstat(turn.file_.get(), &opened) != 0) {
      return failed("cannot read the status of the file", errno);
    }
    if (!S_ISREG(opened.st_mode)) {
      return named(failure(Code::invalid_argument, "the path is not a regular file"));
    }
    const Result<void> locked = take_lock(turn.file_.get(), lock, deadline);
    if (!locked) return locked.error();
    if (fstat(turn.file_.get(), &opened) != 0) {
      return failed("cannot read the status of the file", errno);
    }
    turn.size_ = static_cast<std::uint64_t>(opened.st_size);
    const bool same = stat(path_.c_str(), &named_now) == 0 && named_now.st_ino == opened.st_ino &&
                      named_now.st_dev == opened.st_dev;
    if (same) return turn;
  }
}

Result<void> FileLog::read_header(Turn& turn) const {
  const std::optional<Bytes> header = read_at(turn.file_.get(), 0, kFileHeaderBytes);
  if (!header) return failed("cannot read the file", errno);
  const Result<std::uint64_t> id = decode_header(*header);
  if (!id) return named(id.error());
  turn.id_ = *id;
  return {};
}

Result<FileLog::Turn> FileLog::turn(Lock how, Deadline deadline) {
  Result<Turn> turn = lock(0, how, deadline);
  if (!turn) {
    Failure reason = turn.error();
    // The caller's path was good, because open() found a regular file there. The file must have
    // been removed or replaced since then.
    if (reason.code == Code::invalid_argument) reason.code = Code::unavailable;
    return reason;
  }
  if (Result<void> good = read_header(*turn); !good) return good.error();
  return turn;
}

Result<FileLog> FileLog::open(const std::string& path, Deadline deadline) {
  FileLog log(path);
  Result<Turn> turn = log.lock(O_CREAT, Lock::exclusive, deadline);
  if (!turn) return turn.error();
  // Resolves a symbolic link, because compact() must replace the file, not the link.
  std::error_code unresolved;
  const std::filesystem::path real = std::filesystem::canonical(path, unresolved);
  if (!unresolved) log.path_ = real.string();
  const std::optional<Bytes> head = read_at(turn->file_.get(), 0, kFileHeaderBytes);
  if (!head) return log.failed("cannot read the file", errno);
  // Writes the header if it is missing or incomplete. This is the case if the file is new, or if
  // the process that created the file was killed before it had written the whole header.
  const std::string_view begun = std::string_view(*head).substr(0, kFileMagic.size());
  if (head->size() < kFileHeaderBytes && kFileMagic.starts_with(begun)) {
    std::uint64_t size = 0;
    Result<void> made = log.write_new(turn->file_.get(), LocalState(), new_id(), size);
    if (!made) {
      static_cast<void>(!ftruncate(turn->file_.get(), 0));
      return made.error();
    }
  }
  if (Result<void> good = log.read_header(*turn); !good) return good.error();
  return log;
}

bool FileLog::changed() const {
  const Descriptor file(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  struct stat now {};
  if (!file || fstat(file.get(), &now) != 0) return true;  // turn() reports the error
  const std::optional<Bytes> head = read_at(file.get(), 0, kFileHeaderBytes);
  const Result<std::uint64_t> id = decode_header(head.value_or(Bytes()));
  return !id || *id != id_ || static_cast<std::uint64_t>(now.st_size) != seen_;
}

// ---- records -----------------------------------------------------------------------------------

Result<bool> FileLog::read(const Turn& turn, LocalState& state) {
  const std::uint64_t size = turn.size_;
  if (turn.id_ != id_) {  // another process has compacted the file: read it from the start
    state = LocalState();
    id_ = turn.id_;
    end_ = kFileHeaderBytes;
    compact_above_ = 0;
  } else if (size == seen_) {
    return false;
  }
  if (size < end_) {
    return named(failure(Code::malformed, "the file is damaged: it had {} bytes and now has {}",
                         end_, size));
  }
  for (std::size_t chunk = kChunkBytes; end_ < size;) {
    const std::size_t wanted = std::min<std::uint64_t>(size - end_, chunk);
    const std::optional<Bytes> bytes = read_at(turn.file_.get(), end_, wanted);
    if (!bytes) return failed("cannot read the file", errno);
    std::string_view rest = *bytes;
    Result<Record> record = Record();
    while (!rest.empty()) {
      record = decode_record(rest, end_);
      if (!record) return named(record.error());
      if (!record->whole) break;
      for (const LocalChange& change : record->changes) state.apply(change);
      end_ += record->size;
      rest.remove_prefix(record->size);
    }
    if (wanted == size - end_ && !rest.empty()) break;  // the end of the last record is missing
    // A record that is longer than the chunk is read again with a larger chunk.
    chunk = rest.size() < bytes->size() ? kChunkBytes : std::max(2 * chunk, record->size);
  }
  seen_ = size;
  return true;
}

Result<void> FileLog::append(const Turn& turn, const std::vector<LocalChange>& changes) {
  const int file = turn.file_.get();
  if (turn.size_ > end_ && ftruncate(file, static_cast<off_t>(end_)) != 0) {
    return failed("cannot remove an unfinished record at its end", errno);
  }
  const Bytes record = encode_record(changes, end_);
  if (const int error = write_at(file, end_, record); error != 0) {
    static_cast<void>(!ftruncate(file, static_cast<off_t>(end_)));
    return failed(format("cannot append {} bytes to the file of {} bytes, so nothing was changed",
                         record.size(), end_),
                  error);
  }
  end_ += record.size();
  seen_ = end_;
  return {};
}

/// Writes the whole state, with a header, to an empty file. Sets `size` to the length of the file.
Result<void> FileLog::write_new(int file, const LocalState& state, std::uint64_t id,
                                std::uint64_t& size) const {
  Bytes out = encode_header(id);
  size = 0;
  std::vector<LocalChange> changes;
  std::size_t bytes = 0;
  int error = 0;
  const auto flush = [&] {
    if (!changes.empty()) out += encode_record(changes, size + out.size());
    if (error == 0) error = write_at(file, size, out);
    size += out.size();
    out.clear();
    changes.clear();
    bytes = 0;
  };
  const auto add = [&](LocalChange::Kind kind, const std::string& key, const std::string& value) {
    changes.push_back({kind, key, value});
    bytes += key.size() + value.size() + sizeof(LocalChange);
    if (bytes >= kChunkBytes) flush();
  };
  for (const auto& [key, value] : state.keys()) add(LocalChange::Kind::set, key, value);
  for (const auto& [key, items] : state.queues()) {
    for (const std::string& item : items) add(LocalChange::Kind::push, key, item);
  }
  for (std::uint32_t i = 0; i < state.leaves(); ++i) add(LocalChange::Kind::leave, {}, {});
  flush();
  if (error != 0) return failed("cannot write the file", error);
  return {};
}

void FileLog::compact(const Turn& turn, const LocalState& state) {
  // Does nothing if the file is small, or if at most half of it is garbage. After a failed attempt,
  // does nothing until the file is more than twice as long as it was at that attempt.
  if (end_ <= std::max<std::uint64_t>({kCompactBytes, 2 * state.bytes(), compact_above_})) return;
  compact_above_ = 2 * end_;
  struct stat old {};
  if (fstat(turn.file_.get(), &old) != 0) return;
  const std::string made = path_ + ".new";
  unlink(made.c_str());  // may be left from a process that was killed during compact()
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  const Descriptor file(::open(made.c_str(), flags, old.st_mode & 0777));
  if (!file) return;
  const std::uint64_t id = new_id();
  std::uint64_t size = 0;
  // fdatasync before rename: otherwise a power loss could leave an empty file at the path.
  const bool good = fchmod(file.get(), old.st_mode & 0777) == 0 &&
                    write_new(file.get(), state, id, size).has_value() &&
                    fdatasync(file.get()) == 0 && rename(made.c_str(), path_.c_str()) == 0;
  if (!good) {
    unlink(made.c_str());
    return;
  }
  id_ = id;
  end_ = seen_ = size;
  compact_above_ = 0;
}

void FileLog::remove() { unlink(path_.c_str()); }

}  // namespace c10dd::client
