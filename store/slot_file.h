// SPDX-License-Identifier: Apache-2.0
// A small file that holds one value and is written over and over. It has two slots with checksums,
// which are written alternately, so that a torn write leaves the older value intact.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::store {

inline constexpr std::size_t kFileSlotBytes = 4096;

/// What the file is, and which version of its content this program writes.
struct SlotFormat {
  std::string_view magic;  ///< 8 bytes
  std::uint32_t version = 1;
};

/// A slot. Each write uses a higher `turn`, so the newer slot has the higher `turn`.
struct FileSlot {
  std::uint64_t turn = 0;
  Bytes body;  ///< at most kFileSlotBytes less 28
};

/// Returns the slot as exactly kFileSlotBytes bytes.
Bytes encode_file_slot(const SlotFormat& format, const FileSlot& slot);

/// Decodes a slot. Fails with malformed, or with version_unsupported if an intact slot has a newer
/// version.
Result<FileSlot> decode_file_slot(const SlotFormat& format, std::string_view bytes);

/// An open file. Only one process may use it.
class SlotFile {
 public:
  enum class Found : std::uint8_t { nothing, value, damage };

  /// Reads a file and changes nothing. `valid` judges the body of an intact slot. Fails if the file
  /// cannot be read or has a newer version. found() returns `nothing` if there is no file, `value`
  /// if a slot is intact, and `damage` otherwise.
  static Result<SlotFile> open(std::string path, SlotFormat format,
                               const std::function<bool(std::string_view body)>& valid);

  ~SlotFile();
  SlotFile(SlotFile&& other) noexcept;
  SlotFile& operator=(SlotFile&&) = delete;

  Found found() const { return found_; }
  /// Returns the newest value that was read or written.
  const Bytes& body() const { return newest_.body; }
  const std::string& path() const { return path_; }

  /// Writes a value and syncs it to disk. If open() found no file or a damaged one, the first
  /// write() creates a new file, which appears complete or not at all. Every other write() uses the
  /// open file, and also fails if that file was removed or replaced.
  Result<void> write(Bytes body);

 private:
  SlotFile(std::string path, SlotFormat format) : path_(std::move(path)), format_(format) {}
  Result<void> create();
  Failure refused(const std::string& what) const;

  std::string path_;
  SlotFormat format_;
  int file_ = -1;
  Found found_ = Found::nothing;
  FileSlot newest_;
};

}  // namespace c10dd::store
