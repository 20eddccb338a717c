// SPDX-License-Identifier: Apache-2.0
// The keys and values in RocksDB's one column family, in byte order:
//   "f"                kStoredFormat, in decimal
//   "m" BE64(job)      JobHead: epoch, revision, repeat_from (protocol/fields.h)
//   "r" BE64(job) key  value
// BE64 is a number as 8 bytes, big endian, so that the keys are in the order of the numbers. This
// file does not use RocksDB.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/fields.h"
#include "store/job_head.h"

namespace c10dd::store {

inline constexpr std::string_view kFormatKey = "f";
inline constexpr char kHeadTag = 'm';
inline constexpr char kRowTag = 'r';
inline constexpr std::size_t kTagBytes = 1 + sizeof(JobNumber);
inline constexpr std::size_t kHeadBytes = 3 * sizeof(std::uint64_t);  // of an encoded JobHead

/// If `tag` is kHeadTag, returns the key of the head of `job`. If `tag` is kRowTag, returns the key
/// of a row of `job`, or, if `key` is empty, the prefix of all rows of `job`.
inline Bytes tagged(char tag, JobNumber job, std::string_view key = {}) {
  Bytes out(1, tag);
  out.reserve(kTagBytes + key.size());
  const JobNumber big_endian = __builtin_bswap64(job);
  return out.append(reinterpret_cast<const char*>(&big_endian), sizeof big_endian).append(key);
}

/// Returns the job number in a key that consists of only a tag and a job number.
inline JobNumber job_of(std::string_view head_key) {
  JobNumber job = 0;
  for (const char byte : head_key.substr(1)) job = job << 8 | static_cast<unsigned char>(byte);
  return job;
}

/// Returns the first key after all keys that start with `prefix`. The first byte of `prefix` must
/// be below 0xff, which is true for every tag.
inline Bytes after(Bytes prefix) {
  while (prefix.back() == '\xff') prefix.pop_back();
  ++prefix.back();
  return prefix;
}

}  // namespace c10dd::store
