// SPDX-License-Identifier: Apache-2.0
// A log consists of blocks of 32 KiB, and each block of fragments. A fragment has: masked CRC-32C
// of type and payload, length, type, payload. A record is either one fragment of Type::full, or one
// of Type::first, any number of Type::middle and one of Type::last. Each fragment of a record,
// except the last one, reaches to the end of its block. The payload of a record begins with the
// number of the record's first change and the count of the record's changes.
#include "store/rocks/log.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <cstring>

namespace c10dd::store {
namespace {

constexpr std::size_t kBlock = 32'768;
constexpr std::size_t kHeader = 7;
constexpr std::size_t kBatchHeader = 12;

enum class Type : std::uint8_t { full = 1, first = 2, middle = 3, last = 4 };

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T out{};  // RocksDB writes little endian, and this machine is little endian
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

struct Fragment {
  std::uint32_t checksum = 0;
  Type type{};
  std::string_view checked;  ///< the byte of the type, and the payload

  std::string_view payload() const { return checked.substr(1); }
  bool begins() const { return type == Type::full || type == Type::first; }
  bool intact() const {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
    crc.process_bytes(checked.data(), checked.size());
    const std::uint32_t sum = crc.checksum();
    return checksum == (sum >> 15 | sum << 17) + 0xa282ead8;
  }
};

/// Returns the fragment at offset `at`, even if its checksum is wrong. Returns nothing if the bytes
/// cannot be a fragment.
std::optional<Fragment> fragment_at(std::string_view log, std::size_t at) {
  const std::size_t block_end = std::min(log.size(), (at / kBlock + 1) * kBlock);
  if (at + kHeader > block_end) return std::nullopt;
  const std::size_t length = number_at<std::uint16_t>(log, at + 4);
  const auto type = static_cast<std::uint8_t>(log[at + 6]);
  if (type < 1 || type > 4 || at + kHeader + length > block_end) return std::nullopt;
  return Fragment{number_at<std::uint32_t>(log, at), Type{type}, log.substr(at + 6, 1 + length)};
}

/// Returns the offset of the fragment that follows `fragment`. `at` is the offset of `fragment`.
std::size_t behind(std::size_t at, const Fragment& fragment) {
  const std::size_t end = at + kHeader + fragment.payload().size();
  const std::size_t left = kBlock - end % kBlock;
  return left < kHeader ? end + left : end;  // a header never spans two blocks
}

/// If a record begins with this fragment, returns the number of the record's first change.
std::optional<std::uint64_t> sequence_of(const Fragment& fragment) {
  if (!fragment.begins() || fragment.payload().size() < kBatchHeader) return std::nullopt;
  return number_at<std::uint64_t>(fragment.payload(), 0);
}

/// Returns whether the record that begins at offset `at` is intact up to its end.
bool whole(std::string_view log, std::size_t at) {
  for (bool first = true;; first = false) {
    const std::optional<Fragment> fragment = fragment_at(log, at);
    if (!fragment || fragment->begins() != first || !fragment->intact()) return false;
    if (fragment->type == Type::full || fragment->type == Type::last) return true;
    at = behind(at, *fragment);
  }
}

/// Returns the offset of the first record that RocksDB did not read. A record has the number of its
/// first change. RocksDB stops at a record if its number is too high (`missing` or above), or too
/// low (not above the number of the previous record). If RocksDB stopped at no record, returns the
/// offset of the last record.
std::size_t end_of_read(std::string_view log, std::uint64_t missing) {
  std::size_t at = 0;
  std::size_t begin = 0;
  std::uint64_t last = 0;
  while (const std::optional<Fragment> fragment = fragment_at(log, at)) {
    if (fragment->begins()) begin = at;
    if (const auto sequence = sequence_of(*fragment)) {
      if (*sequence <= last || *sequence >= missing) return begin;
      last = *sequence;
    }
    at = behind(at, *fragment);
  }
  return begin;
}

}  // namespace

std::optional<std::uint64_t> record_behind(std::string_view log, std::uint64_t missing,
                                           std::uint64_t window) {
  // Damage may have destroyed lengths, so a record may begin at any byte.
  for (std::size_t at = end_of_read(log, missing); at < log.size(); ++at) {
    const std::optional<Fragment> fragment = fragment_at(log, at);
    if (!fragment) continue;
    const std::optional<std::uint64_t> sequence = sequence_of(*fragment);
    const bool later = sequence && *sequence > missing && *sequence - missing <= window;
    if (later && whole(log, at)) return *sequence;
  }
  return std::nullopt;
}

}  // namespace c10dd::store
