// SPDX-License-Identifier: Apache-2.0
// The format of the file of a file store: a header, then records. A record is a list of changes
// that are made together. All functions are pure. Numbers are little endian.
//   header = "C10DFILE" u32 version, u64 id, u32 crc of these 20 bytes
//   record = u32 length, u32 crc of the body, u32 crc of these 8 bytes and the offset, body
//   body   = list<struct LocalChange>, as protocol/fields.h writes it
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "client/stores/local_store.h"
#include "protocol/error.h"

namespace c10dd::client {

inline constexpr std::string_view kFileMagic = "C10DFILE";
inline constexpr std::uint32_t kFileVersion = 1;
inline constexpr std::size_t kFileHeaderBytes = 24;
inline constexpr std::size_t kRecordHeaderBytes = 12;

/// Encodes the header. `id` distinguishes the file from a later file at the same path.
Bytes encode_header(std::uint64_t id);
/// Returns the id from the header. Fails with `invalid_argument` if the bytes are not the header of
/// a file store, with `version_unsupported` if a newer version of c10dd wrote the header, and with
/// `malformed` if the header is damaged. The error texts do not name the file.
Result<std::uint64_t> decode_header(std::string_view bytes);

/// Encodes a record that will be written at this offset of the file.
Bytes encode_record(const std::vector<LocalChange>& changes, std::uint64_t offset);

struct Record {
  std::vector<LocalChange> changes;
  /// Size in bytes of the record's header and body. If the record is not whole, `size` is larger
  /// than the input of decode_record().
  std::size_t size = 0;
  bool whole = false;  ///< false if the end of the record is missing
};
/// Decodes the record at the start of `bytes`. `offset` is the position of `bytes` in the file.
/// Fails with `malformed` if the record is damaged. A record that a killed writer left unfinished
/// does not count as damaged: Record::whole is false for it.
Result<Record> decode_record(std::string_view bytes, std::uint64_t offset);

}  // namespace c10dd::client
