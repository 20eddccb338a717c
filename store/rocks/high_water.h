// SPDX-License-Identifier: Apache-2.0
// The file "highwater" of a state directory. It holds a mark: the number of the newest change in
// the rows, and totals over the jobs, as of the last write of the file. A log that lost its end
// looks like a shorter log; only a mark outside the log shows the loss.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/error.h"
#include "store/slot_file.h"

namespace c10dd::store {

/// Describes how far a state has come, in counts that only grow. If a count of the state is below
/// the same count of the mark, the state has lost changes.
struct HighWaterMark {
  /// Says how long the mark stays valid if the process ends without closing the engine.
  enum class Holds : std::uint8_t {
    always,     ///< always: the rows were on disk before the mark
    this_boot,  ///< until the machine restarts: the rows were in the kernel's cache
    never,      ///< never: the rows were only in memory; a clean close makes the mark valid
  };
  /// Says why the state may lack changes that clients have seen. For all values except `none`, the
  /// state needs a new incarnation.
  enum class Renewal : std::uint8_t { none, restored, rolled_back };

  std::uint64_t sequence = 0;    ///< number of the newest change; 0: no change was acknowledged
  std::uint64_t log_number = 0;  ///< logs with lower numbers are no longer needed
  std::uint64_t jobs = 0;
  std::uint64_t revisions = 0;  ///< sum over the jobs
  std::uint64_t epochs = 0;     ///< sum over the jobs
  Holds holds = Holds::always;
  std::uint64_t boot = 0;  ///< boot_number() when the mark was written, for Holds::this_boot
  Renewal renewal = Renewal::none;

  bool operator==(const HighWaterMark&) const = default;
};
BOOST_DESCRIBE_STRUCT(HighWaterMark, (),
                      (sequence, log_number, jobs, revisions, epochs, holds, boot, renewal))

/// A slot of the file.
struct HighWaterSlot {
  std::uint64_t turn = 0;
  HighWaterMark mark;
};

inline constexpr std::size_t kHighWaterSlotBytes = kFileSlotBytes;

/// Returns the slot as exactly kHighWaterSlotBytes bytes.
Bytes encode_high_water_slot(const HighWaterSlot& slot);

/// Decodes a slot. Fails with malformed, or with version_unsupported if an intact slot has a newer
/// format.
Result<HighWaterSlot> decode_high_water_slot(std::string_view bytes);

/// An open high-water file. The user of this class must hold the lock of the state directory.
class HighWaterFile {
 public:
  enum class Found : std::uint8_t { nothing, mark, damage };

  static std::string path_in(const std::string& directory) { return directory + "/highwater"; }

  /// Reads the file of a directory and changes nothing. Fails if the file cannot be read or has a
  /// newer format. found() returns `nothing` if there is no file, `mark` if a slot is intact, and
  /// `damage` otherwise.
  static Result<HighWaterFile> open(const std::string& directory);

  Found found() const;
  /// Returns the newest mark that was read or written.
  const HighWaterMark& mark() const { return mark_; }
  const std::string& path() const { return file_.path(); }

  /// Raises the fields `sequence`, `jobs`, `revisions` and `epochs` of mark() to at least the
  /// values that they have in `acknowledged`.
  void expect(const HighWaterMark& acknowledged);

  /// Writes a mark and syncs it to disk; see SlotFile::write().
  Result<void> write(const HighWaterMark& mark);

 private:
  explicit HighWaterFile(SlotFile file) : file_(std::move(file)) {}

  SlotFile file_;
  HighWaterMark mark_;
};

/// Returns a number that identifies this boot of the machine; 0 if the kernel does not provide one.
std::uint64_t boot_number();

}  // namespace c10dd::store
