// SPDX-License-Identifier: Apache-2.0
// What stands in the file of a file store: a header, then records, each a list of changes that
// count together. Pure. Numbers are little endian.
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

/// `id` tells a file from the one that took its place.
Bytes encode_header(std::uint64_t id);
/// The id. Errors say what is wrong with the file, not which it is.
Result<std::uint64_t> decode_header(std::string_view bytes);

/// The record to stand at this offset.
Bytes encode_record(const std::vector<LocalChange>& changes, std::uint64_t offset);

struct Record {
  std::vector<LocalChange> changes;
  std::size_t size = 0;  ///< with its header; unless whole, more than `bytes` has
  bool whole = false;    ///< else its end is missing
};
/// The record at the head of `bytes`, which stand at this offset. Fails for bytes that no writer
/// leaves behind, wherever it was stopped.
Result<Record> decode_record(std::string_view bytes, std::uint64_t offset);

}  // namespace c10dd::client
