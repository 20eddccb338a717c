// SPDX-License-Identifier: Apache-2.0
// Layout of a slot: magic, format, length of the body, turn (number of the write), body
// (protocol/fields.h), CRC-32 of all bytes before the CRC-32, zeros.
#include "store/rocks/high_water.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "store/rocks/state_directory.h"

namespace c10dd::store {
namespace {

constexpr std::string_view kMagic = "c10ddhw\n";
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kHeaderBytes = kMagic.size() + 4 + 4 + 8;  // magic, format, length, turn

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

Bytes encode_high_water_slot(const HighWaterSlot& slot) {
  const Bytes body = wire::encode(slot.mark);
  Bytes out(kMagic);
  wire::Writer writer(out);
  writer.put(kFormat);
  writer.put(static_cast<std::uint32_t>(body.size()));
  writer.put(slot.turn);
  out += body;
  writer.put(checksum(out));
  C10DD_ASSERT(out.size() <= kHighWaterSlotBytes);
  out.resize(kHighWaterSlotBytes, '\0');
  return out;
}

Result<HighWaterSlot> decode_high_water_slot(std::string_view bytes) {
  if (bytes.size() != kHighWaterSlotBytes || !bytes.starts_with(kMagic)) return damaged("no mark");
  std::uint32_t format = 0;
  std::uint32_t length = 0;
  HighWaterSlot slot;
  wire::Reader header(bytes.substr(kMagic.size()));
  header.get(format);
  header.get(length);
  header.get(slot.turn);
  if (length > kHighWaterSlotBytes - kHeaderBytes - 4) return damaged("a length above the limit");
  std::uint32_t sum = 0;
  wire::Reader(bytes.substr(kHeaderBytes + length)).get(sum);
  if (sum != checksum(bytes.substr(0, kHeaderBytes + length))) return damaged("a wrong checksum");
  // The format is checked after the checksum, because damage must not look like a newer format.
  if (format > kFormat) {
    return failure(Code::version_unsupported,
                   "has format {}, this daemon knows formats up to {}; start the newer daemon that "
                   "wrote it",
                   format, kFormat);
  }
  const bool read = wire::decode_into(slot.mark, bytes.substr(kHeaderBytes, length)).has_value();
  if (!read || slot.mark.holds > HighWaterMark::Holds::never ||
      slot.mark.renewal > HighWaterMark::Renewal::rolled_back) {
    return damaged("an invalid mark");
  }
  return slot;
}

Result<HighWaterFile> HighWaterFile::open(const std::string& directory) {
  HighWaterFile out(path_in(directory));
  out.file_ = ::open(out.path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (out.file_ < 0) {
    if (errno == ENOENT) return out;
    return out.refused("cannot be opened");
  }
  out.found_ = Found::damage;
  for (off_t at = 0; at < 2; ++at) {
    std::array<char, kHighWaterSlotBytes> bytes{};
    const ssize_t size = ::pread(out.file_, bytes.data(), bytes.size(),
                                 at * static_cast<off_t>(kHighWaterSlotBytes));
    if (size < 0) return out.refused("cannot be read");
    const Result<HighWaterSlot> slot =
        decode_high_water_slot({bytes.data(), static_cast<std::size_t>(size)});
    if (!slot && slot.error().code == Code::version_unsupported) {
      return failure(Code::version_unsupported, "{} {}", out.path_, slot.error().detail);
    }
    if (!slot || slot->turn < out.newest_.turn) continue;
    out.newest_ = *slot;
    out.found_ = Found::mark;
  }
  return out;
}

HighWaterFile::~HighWaterFile() {
  if (file_ >= 0) ::close(file_);
}

HighWaterFile::HighWaterFile(HighWaterFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      found_(other.found_),
      newest_(other.newest_) {}

Failure HighWaterFile::refused(const std::string& what) const {
  return failure(errno == EACCES ? Code::permission_denied : Code::unavailable, "{} {}: {}", path_,
                 what, std::strerror(errno));
}

Result<void> HighWaterFile::write(const HighWaterMark& mark) {
  newest_ = {newest_.turn + 1, mark};
  if (found_ != Found::mark) return create();
  const auto offset = static_cast<off_t>(newest_.turn % 2 * kHighWaterSlotBytes);
  if (!write_all(file_, encode_high_water_slot(newest_), offset) || ::fdatasync(file_) != 0) {
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

void HighWaterFile::expect(const HighWaterMark& acknowledged) {
  HighWaterMark& mark = newest_.mark;
  mark.sequence = std::max(mark.sequence, acknowledged.sequence);
  mark.jobs = std::max(mark.jobs, acknowledged.jobs);
  mark.revisions = std::max(mark.revisions, acknowledged.revisions);
  mark.epochs = std::max(mark.epochs, acknowledged.epochs);
}

Result<void> HighWaterFile::create() {
  const std::string draft = path_ + ".new";
  const int file = ::open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return refused("cannot be created");
  if (file_ >= 0) ::close(file_);
  file_ = file;
  const Bytes slot = encode_high_water_slot(newest_);
  const std::string directory = std::filesystem::path(path_).parent_path();
  if (!write_all(file_, slot + slot, 0) || ::fsync(file_) != 0 ||
      ::rename(draft.c_str(), path_.c_str()) != 0 || !sync_directory(directory)) {
    return refused("cannot be created");
  }
  found_ = Found::mark;
  return {};
}

std::uint64_t boot_number() {
  const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 64> text{};
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  std::string digits;
  for (ssize_t i = 0; i < size && digits.size() < 16; ++i) {
    if (text[static_cast<std::size_t>(i)] != '-') digits += text[static_cast<std::size_t>(i)];
  }
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

}  // namespace c10dd::store
