// SPDX-License-Identifier: Apache-2.0
// The file "highwater" of a state directory: what the rows beside it had reached when it was last
// written. A log that lost its end looks like a shorter log; only a mark kept apart tells.
// Two slots are written in turn, each with a checksum, so a torn write leaves the older one.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::store {

/// All numbers only grow in intact state, so a smaller one means that something was lost.
struct HighWaterMark {
  /// What the mark is worth when the holder of the directory ends without closing it.
  enum class Holds : std::uint8_t {
    always,     ///< the rows were on disk before the mark
    this_boot,  ///< they were the kernel's: they survive the process, not the machine
    never,      ///< they were in memory: the mark counts only after a clean close
  };
  /// Why the state needs a new name (incarnation): clients may have seen more than it holds.
  enum class Renewal : std::uint8_t { none, restored, rolled_back };

  std::uint64_t sequence = 0;    ///< of the newest change; 0: nothing was ever acknowledged
  std::uint64_t log_number = 0;  ///< logs below are no longer needed
  std::uint64_t jobs = 0;
  std::uint64_t revisions = 0;  ///< sum over the jobs
  std::uint64_t epochs = 0;     ///< sum over the jobs
  Holds holds = Holds::always;
  std::uint64_t boot = 0;  ///< of this_boot
  Renewal renewal = Renewal::none;

  bool operator==(const HighWaterMark&) const = default;
};
BOOST_DESCRIBE_STRUCT(HighWaterMark, (),
                      (sequence, log_number, jobs, revisions, epochs, holds, boot, renewal))

/// A slot of the file. The newer of two has the higher turn.
struct HighWaterSlot {
  std::uint64_t turn = 0;
  HighWaterMark mark;
};

inline constexpr std::size_t kHighWaterSlotBytes = 4096;

/// Exactly kHighWaterSlotBytes.
Bytes encode_high_water_slot(const HighWaterSlot& slot);

/// Fails as malformed, or as version_unsupported when it is intact but of a newer format.
Result<HighWaterSlot> decode_high_water_slot(std::string_view bytes);

/// The file, open. Whoever uses it holds the state directory.
class HighWaterFile {
 public:
  enum class Found : std::uint8_t { nothing, mark, damage };

  /// Where it is in a state directory.
  static std::string path_in(const std::string& directory) { return directory + "/highwater"; }

  /// Reads the file of a directory, and touches nothing. Fails when it cannot be read, or has a
  /// newer format. A file with one good slot is good; with none it is damage.
  static Result<HighWaterFile> open(const std::string& directory);

  ~HighWaterFile();
  HighWaterFile(HighWaterFile&& other) noexcept;
  HighWaterFile& operator=(HighWaterFile&&) = delete;

  Found found() const { return found_; }
  /// The newest mark that was read or written.
  const HighWaterMark& mark() const { return newest_.mark; }
  const std::string& path() const { return path_; }

  /// The state has reached at least this, whatever the file says.
  void expect(const HighWaterMark& acknowledged);

  /// On disk when it returns, and still under its name. Makes a new file where there was none, or
  /// damage: complete under its name or not there.
  Result<void> write(const HighWaterMark& mark);

 private:
  explicit HighWaterFile(std::string path) : path_(std::move(path)) {}
  Result<void> create();
  Failure refused(const std::string& what) const;

  std::string path_;
  int file_ = -1;
  Found found_ = Found::nothing;
  HighWaterSlot newest_;
};

/// Of this start of the machine; 0 where the kernel does not tell.
std::uint64_t boot_number();

}  // namespace c10dd::store
