// SPDX-License-Identifier: Apache-2.0
// What the SDK throws. One type per reaction that a caller may want; everything else is Error.
// Standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <c10dd/codes.h>
#include <c10dd/types.h>

namespace c10dd {

/// A rank that was waited for, or that a group has lost.
struct Missing {
  Rank rank = 0;
  std::string host;  ///< empty when the rank never connected
  /// never_connected, not_arrived, disconnected, elsewhere, silent, dead, or absent: it has
  /// arrived, but has no connection now.
  std::string cause;
  std::string doing;  ///< where it is instead, its phase and step, or how it ended; may be empty
  std::chrono::nanoseconds silent_for{0};  ///< since its last sign of life
  std::uint64_t pid = 0;                   ///< 0 when the rank never connected
};

/// Base of all errors of the SDK. what() is one sentence for people.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& detail) : std::runtime_error(detail), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

/// A time-out passed. For barriers, exchanges, rendezvous and collectives missing() has the ranks
/// that did not arrive, as far as they are known.
class TimedOut : public Error {
 public:
  TimedOut(const std::string& detail, std::vector<Missing> missing)
      : Error(Code::timed_out, detail), missing_(std::move(missing)) {}
  const std::vector<Missing>& missing() const { return missing_; }

 private:
  std::vector<Missing> missing_;
};

class NotFound : public Error {
 public:
  explicit NotFound(const std::string& detail) : Error(Code::not_found, detail) {}
};

class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& detail) : Error(Code::invalid_argument, detail) {}
};

/// The daemon holds less than this client has seen: start the job again under a new run.
class StateRolledBack : public Error {
 public:
  explicit StateRolledBack(const std::string& detail) : Error(Code::state_rolled_back, detail) {}
};

/// The session ended before the answer came (the daemon was out of reach for longer than
/// ClientOptions::session_expiry): whether the change was made is not known. Look before you
/// repeat it.
class OutcomeUnknown : public Error {
 public:
  explicit OutcomeUnknown(const std::string& detail) : Error(Code::outcome_unknown, detail) {}
};

/// This process lost its connection for so long that one that was started again has taken its rank
/// at a barrier or exchange. The client does nothing more: end the process.
class SessionReplaced : public Error {
 public:
  explicit SessionReplaced(const std::string& detail) : Error(Code::session_replaced, detail) {}
};

/// The changes that a watch asked for are no longer kept; the text says from where they are. List
/// again, then watch from the list's revision + 1.
class Compacted : public Error {
 public:
  explicit Compacted(const std::string& detail) : Error(Code::compacted, detail) {}
};

/// There is no room on the disk under the store. Nothing was changed; removing still works.
class DiskFull : public Error {
 public:
  explicit DiskFull(const std::string& detail) : Error(Code::disk_full, detail) {}
};

/// A limit of the job or the daemon; the text has both numbers. Nothing was changed.
class QuotaExceeded : public Error {
 public:
  explicit QuotaExceeded(const std::string& detail) : Error(Code::quota_exceeded, detail) {}
};

/// Somebody who is needed cannot be reached: a peer of a process group without a membership was
/// lost (missing() has it), or no address of this machine leads to the daemon. The daemon's own
/// absence is waited for, and ends as TimedOut.
class Unavailable : public Error {
 public:
  explicit Unavailable(const std::string& detail, std::vector<Missing> missing = {})
      : Error(Code::unavailable, detail), missing_(std::move(missing)) {}
  const std::vector<Missing>& missing() const { return missing_; }

 private:
  std::vector<Missing> missing_;
};

/// The operation was given up by abort() or cancel(), or because its group failed. When members of
/// a generation were lost, missing() has them.
class Aborted : public Error {
 public:
  explicit Aborted(const std::string& detail, std::vector<Missing> missing = {})
      : Aborted(Code::aborted, detail, std::move(missing)) {}
  const std::vector<Missing>& missing() const { return missing_; }

 protected:
  Aborted(Code code, const std::string& detail, std::vector<Missing> missing = {})
      : Error(code, detail), missing_(std::move(missing)) {}

 private:
  std::vector<Missing> missing_;
};

/// The object belongs to the process from which this one was forked: connect, join or open again
/// here. What the parent has is not touched.
class Forked : public Error {
 public:
  explicit Forked(const std::string& detail) : Error(Code::closed, detail) {}
};

/// The group has a newer generation than the one that the operation was bound to: join it, as after
/// every Aborted of a membership.
class StaleGeneration : public Aborted {
 public:
  explicit StaleGeneration(const std::string& detail) : Aborted(Code::stale_generation, detail) {}
};

}  // namespace c10dd
