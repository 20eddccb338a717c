// SPDX-License-Identifier: Apache-2.0
// Layout of a slot: magic, version, length of the body, turn (number of the write), body, CRC-32 of
// all bytes before the CRC-32, zeros.
#include "store/slot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "store/rocks/state_directory.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kMagicBytes = 8;
constexpr std::size_t kHeaderBytes = kMagicBytes + 4 + 4 + 8;  // magic, version, length, turn

std::uint32_t checksum(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

Failure damaged(const char* what) { return failure(Code::malformed, "the slot has {}", what); }

bool write_all(int file, std::string_view bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
    offset += written;
  }
  return true;
}

}  // namespace

Bytes encode_file_slot(const SlotFormat& format, const FileSlot& slot) {
  C10DD_ASSERT(format.magic.size() == kMagicBytes);
  Bytes out(format.magic);
  wire::Writer writer(out);
  writer.put(format.version);
  writer.put(static_cast<std::uint32_t>(slot.body.size()));
  writer.put(slot.turn);
  out += slot.body;
  writer.put(checksum(out));
  C10DD_ASSERT(out.size() <= kFileSlotBytes);
  out.resize(kFileSlotBytes, '\0');
  return out;
}

Result<FileSlot> decode_file_slot(const SlotFormat& format, std::string_view bytes) {
  if (bytes.size() != kFileSlotBytes || !bytes.starts_with(format.magic)) return damaged("no mark");
  std::uint32_t version = 0;
  std::uint32_t length = 0;
  FileSlot slot;
  wire::Reader header(bytes.substr(kMagicBytes));
  header.get(version);
  header.get(length);
  header.get(slot.turn);
  if (length > kFileSlotBytes - kHeaderBytes - 4) return damaged("a length above the limit");
  std::uint32_t sum = 0;
  wire::Reader(bytes.substr(kHeaderBytes + length)).get(sum);
  if (sum != checksum(bytes.substr(0, kHeaderBytes + length))) return damaged("a wrong checksum");
  // The version is checked after the checksum, because damage must not look like a newer version.
  if (version > format.version) {
    return failure(Code::version_unsupported,
                   "has format {}, this daemon knows formats up to {}; start the newer daemon that "
                   "wrote it",
                   version, format.version);
  }
  slot.body = bytes.substr(kHeaderBytes, length);
  return slot;
}

Result<SlotFile> SlotFile::open(std::string path, SlotFormat format,
                                const std::function<bool(std::string_view body)>& valid) {
  SlotFile out(std::move(path), format);
  out.file_ = ::open(out.path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (out.file_ < 0) {
    if (errno == ENOENT) return out;
    return out.refused("cannot be opened");
  }
  out.found_ = Found::damage;
  for (off_t at = 0; at < 2; ++at) {
    std::array<char, kFileSlotBytes> bytes{};
    const ssize_t size =
        ::pread(out.file_, bytes.data(), bytes.size(), at * static_cast<off_t>(kFileSlotBytes));
    if (size < 0) return out.refused("cannot be read");
    Result<FileSlot> slot =
        decode_file_slot(format, {bytes.data(), static_cast<std::size_t>(size)});
    if (!slot && slot.error().code == Code::version_unsupported) {
      return failure(Code::version_unsupported, "{} {}", out.path_, slot.error().detail);
    }
    if (!slot || slot->turn < out.newest_.turn || !valid(slot->body)) continue;
    out.newest_ = std::move(*slot);
    out.found_ = Found::value;
  }
  return out;
}

SlotFile::~SlotFile() {
  if (file_ >= 0) ::close(file_);
}

SlotFile::SlotFile(SlotFile&& other) noexcept
    : path_(std::move(other.path_)),
      format_(other.format_),
      file_(std::exchange(other.file_, -1)),
      found_(other.found_),
      newest_(std::move(other.newest_)) {}

Failure SlotFile::refused(const std::string& what) const {
  return failure(errno == EACCES ? Code::permission_denied : Code::unavailable, "{} {}: {}", path_,
                 what, std::strerror(errno));
}

Result<void> SlotFile::write(Bytes body) {
  newest_ = {newest_.turn + 1, std::move(body)};
  if (found_ != Found::value) return create();
  const auto offset = static_cast<off_t>(newest_.turn % 2 * kFileSlotBytes);
  if (!write_all(file_, encode_file_slot(format_, newest_), offset) || ::fdatasync(file_) != 0) {
    return refused("cannot be written");
  }
  // If the file was removed or replaced, the written mark would not protect the next start.
  struct stat here {};
  struct stat open {};
  if (::stat(path_.c_str(), &here) != 0) return refused("was removed");
  if (::fstat(file_, &open) != 0 || here.st_ino != open.st_ino || here.st_dev != open.st_dev) {
    return failure(Code::unavailable, "{} was replaced by another file while it was open", path_);
  }
  return {};
}

Result<void> SlotFile::create() {
  const std::string draft = path_ + ".new";
  const int file = ::open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return refused("cannot be created");
  if (file_ >= 0) ::close(file_);
  file_ = file;
  const Bytes slot = encode_file_slot(format_, newest_);
  const std::string parent = std::filesystem::path(path_).parent_path();
  const std::string directory = parent.empty() ? "." : parent;
  if (!write_all(file_, slot + slot, 0) || ::fsync(file_) != 0 ||
      ::rename(draft.c_str(), path_.c_str()) != 0 || !sync_directory(directory)) {
    return refused("cannot be created");
  }
  found_ = Found::value;
  return {};
}

}  // namespace c10dd::store
