// SPDX-License-Identifier: Apache-2.0
// The exceptions of the SDK. A failure that a caller may want to handle in its own way has its own
// type; every other failure is a plain Error with a code. Standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <c10dd/codes.h>
#include <c10dd/types.h>

namespace c10dd {

/// A rank that did not arrive in time, or that a group has lost.
struct Missing {
  Rank rank = 0;
  std::string host;  ///< empty if the rank never connected in this launch
  /// Why the rank is missing. One of these texts:
  ///   never_connected  no process has connected as this rank
  ///   not_arrived      the rank is connected, but has not called this barrier or exchange
  ///   disconnected     the rank has not arrived, and has no connection now
  ///   elsewhere        the rank waits at a different barrier, or in a different generation
  ///   silent           the rank is connected, but its heartbeats have stopped
  ///   dead             the group has lost the rank, or the rank has left or was started again
  ///   absent           the rank has arrived, but has no connection now
  ///   left             the rank has closed its client, or its session has expired
  std::string cause;
  std::string doing;  ///< where the rank waits, its phase and step, or how the rank ended; or empty
  std::chrono::nanoseconds silent_for{0};  ///< time since the rank's last sign of life
  std::uint64_t pid = 0;                   ///< 0 if the rank never connected
};

/// Base of all exceptions of the SDK. what() is one sentence for users.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& detail) : std::runtime_error(detail), code_(code) {}
  /// Returns the reason as a code, for programs. name_of(code()) is the name of the code.
  Code code() const { return code_; }

 private:
  Code code_;
};

/// A time-out has passed. After a barrier, exchange, rendezvous or collective, missing() has the
/// ranks that are known not to have arrived.
class TimedOut : public Error {
 public:
  TimedOut(const std::string& detail, std::vector<Missing> missing)
      : Error(Code::timed_out, detail), missing_(std::move(missing)) {}
  const std::vector<Missing>& missing() const { return missing_; }

 private:
  std::vector<Missing> missing_;
};

/// A key, queue item, group or notice does not exist. Nothing was changed.
class NotFound : public Error {
 public:
  explicit NotFound(const std::string& detail) : Error(Code::not_found, detail) {}
};

/// The caller passed an invalid value, which what() names. Nothing was changed.
class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& detail) : Error(Code::invalid_argument, detail) {}
  InvalidArgument(Code code, const std::string& detail) : Error(code, detail) {}
};

/// The state that this client has seen is newer than the daemon's state, or belongs to a different
/// history. This client cannot go on: start the job again with a new run name.
class StateRolledBack : public Error {
 public:
  explicit StateRolledBack(const std::string& detail) : Error(Code::state_rolled_back, detail) {}
};

/// The session ended before the reply arrived, because the daemon was unreachable for longer than
/// ClientOptions::session_expiry; or the connection to a server of another project was lost. The
/// change may or may not have been made: read the state before you repeat it. The client continues
/// in a new session, unless replaced (SessionReplaced).
class OutcomeUnknown : public Error {
 public:
  explicit OutcomeUnknown(const std::string& detail) : Error(Code::outcome_unknown, detail) {}
};

/// A restarted process has taken the rank of this process at a barrier or exchange, because this
/// process had no connection for too long. The client makes no more calls. End this process.
class SessionReplaced : public Error {
 public:
  explicit SessionReplaced(const std::string& detail) : Error(Code::session_replaced, detail) {}
};

/// The group has finished its work, and this process had no place in it: it was a spare. Nothing is
/// left to do: end this process with success. It may also join again, for work of a new kind.
class WorkFinished : public Error {
 public:
  explicit WorkFinished(const std::string& detail) : Error(Code::work_finished, detail) {}
};

/// The daemon no longer keeps the changes that a watch asked for; what() has the oldest revision
/// that the daemon keeps. List the keys again, then watch from 1 + the revision of the new list.
class Compacted : public Error {
 public:
  explicit Compacted(const std::string& detail) : Error(Code::compacted, detail) {}
};

/// The disk of the daemon or of the file store has no room. Nothing was changed; removing keys
/// still works.
class DiskFull : public Error {
 public:
  explicit DiskFull(const std::string& detail) : Error(Code::disk_full, detail) {}
};

/// A limit of the job or the daemon would be exceeded; what() has the value and the limit. Nothing
/// was changed.
class QuotaExceeded : public Error {
 public:
  explicit QuotaExceeded(const std::string& detail) : Error(Code::quota_exceeded, detail) {}
};

/// Something that the operation needs cannot be used:
///   - A process group cannot be opened, or has lost a rank (see missing()).
///     If the group belongs to a membership, the loss of a rank throws Aborted instead.
///   - No network address of this machine leads to the daemon.
///   - The file of a file store cannot be read or written.
/// Calls to an unreachable daemon do not throw Unavailable: they wait for the daemon, then throw
/// TimedOut.
class Unavailable : public Error {
 public:
  explicit Unavailable(const std::string& detail, std::vector<Missing> missing = {})
      : Error(Code::unavailable, detail), missing_(std::move(missing)) {}
  const std::vector<Missing>& missing() const { return missing_; }

 private:
  std::vector<Missing> missing_;
};

/// abort() or cancel() has ended the operation, or the group or generation has ended. missing() has
/// the members of the generation that were lost, if any. If the operation belongs to a membership,
/// call Membership::next() to continue.
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

/// The object belongs to the parent process, from which this process was forked. The parent can
/// still use the object. In this process, connect, join or open again.
class Forked : public Error {
 public:
  explicit Forked(const std::string& detail) : Error(Code::forked, detail) {}
};

/// The operation is bound to a generation of the group, but the group has a newer generation. To
/// continue, call Membership::next().
class StaleGeneration : public Aborted {
 public:
  explicit StaleGeneration(const std::string& detail) : Aborted(Code::stale_generation, detail) {}
};

}  // namespace c10dd
