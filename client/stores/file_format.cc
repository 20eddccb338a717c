// SPDX-License-Identifier: Apache-2.0
// The header of a record has its own checksum. Without it, a record with a damaged length could
// look like a record whose end is missing.
#include "client/stores/file_format.h"

#include <algorithm>
#include <boost/crc.hpp>

#include "protocol/fields.h"
#include "protocol/format.h"

namespace c10dd::client {
namespace {

std::uint32_t crc(std::string_view bytes) {
  boost::crc_32_type sum;
  sum.process_bytes(bytes.data(), bytes.size());
  return sum.checksum();
}

/// Returns the checksum of a record's header. The sum includes the offset, so that a record at a
/// wrong offset is detected as damage.
std::uint32_t head_crc(std::string_view head, std::uint64_t offset) {
  Bytes bytes(head);
  wire::Writer(bytes).put(offset);
  return crc(bytes);
}

}  // namespace

Bytes encode_header(std::uint64_t id) {
  Bytes header(kFileMagic);
  wire::Writer out(header);
  out.put(kFileVersion);
  out.put(id);
  out.put(crc(header));
  return header;
}

Result<std::uint64_t> decode_header(std::string_view bytes) {
  if (bytes.size() < kFileHeaderBytes || !bytes.starts_with(kFileMagic)) {
    return failure(Code::invalid_argument, "the file is not a file store");
  }
  std::uint32_t version = 0;
  std::uint64_t id = 0;
  std::uint32_t sum = 0;
  wire::Reader in(bytes.substr(kFileMagic.size(), kFileHeaderBytes - kFileMagic.size()));
  in.get(version);
  in.get(id);
  in.get(sum);
  if (version > kFileVersion) {
    return failure(
        Code::version_unsupported,
        "a newer version wrote the file in format {}; this version reads formats up to {}", version,
        kFileVersion);
  }
  if (sum != crc(bytes.substr(0, kFileHeaderBytes - sizeof sum))) {
    return failure(Code::malformed,
                   "the file is damaged at byte 0: the checksum of its header is wrong");
  }
  return id;
}

Bytes encode_record(const std::vector<LocalChange>& changes, std::uint64_t offset) {
  Bytes record(kRecordHeaderBytes, '\0');
  wire::Writer(record).put(changes);
  Bytes head;
  wire::Writer out(head);
  out.put(static_cast<std::uint32_t>(record.size() - kRecordHeaderBytes));
  out.put(crc(std::string_view(record).substr(kRecordHeaderBytes)));
  out.put(head_crc(head, offset));
  std::copy(head.begin(), head.end(), record.begin());
  return record;
}

Result<Record> decode_record(std::string_view bytes, std::uint64_t offset) {
  const auto damaged = [&](const char* what) {
    return failure(Code::malformed, "the file is damaged at byte {}: {} is wrong", offset, what);
  };
  Record record;
  record.size = kRecordHeaderBytes;
  if (bytes.size() < kRecordHeaderBytes) return record;
  std::uint32_t length = 0;
  std::uint32_t body_sum = 0;
  std::uint32_t head_sum = 0;
  wire::Reader head(bytes);
  head.get(length);
  head.get(body_sum);
  head.get(head_sum);
  if (head_sum != head_crc(bytes.substr(0, 8), offset)) {
    // A power loss can leave zeros after the data that was written. Such zeros count as an
    // unfinished record, not as damage.
    if (bytes.find_first_not_of('\0') == std::string_view::npos) {
      record.size = bytes.size() + 1;
      return record;
    }
    return damaged("the checksum of a record header");
  }
  record.size += length;
  if (bytes.size() < record.size) return record;
  const std::string_view body = bytes.substr(kRecordHeaderBytes, length);
  if (body_sum != crc(body)) return damaged("the checksum of a record");
  wire::Reader in(body);
  in.get(record.changes);
  if (!in.ok() || !in.at_end()) return damaged("the list of changes in a record");
  record.whole = true;
  return record;
}

}  // namespace c10dd::client
