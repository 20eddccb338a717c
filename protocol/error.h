// SPDX-License-Identifier: Apache-2.0
// Defines how functions report expected failures: Result<T> holds a value or a Failure. Bugs end
// the process through C10DD_ASSERT, which stays on in release builds.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/system/result.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "protocol/codes.h"
#include "protocol/types.h"

namespace c10dd {

/// What the daemon knows about a rank that other ranks wait for, or that a group has lost.
struct MissingRank {
  enum class Cause : std::uint8_t {
    never_connected = 0,  ///< no session has ever had this rank
    not_arrived = 1,      ///< the rank has not arrived, but its session is connected
    disconnected = 2,     ///< the rank has not arrived, and its session has no connection
    elsewhere = 3,        ///< the rank waits at another barrier or in another generation
    silent = 4,           ///< connected, but its heartbeats stopped
    dead = 5,             ///< the group has lost the rank, or the rank has left; see `doing`
    absent = 6,           ///< the rank has arrived, but its session has no connection
    left = 7,             ///< its session has ended, and it has not come again; see `doing`
  };

  Rank rank = 0;
  Cause cause = Cause::never_connected;
  std::string host;  ///< empty if never_connected
  std::uint64_t pid = 0;
  Duration silent_for{0};  ///< time since the rank's last sign of life
  std::string doing = {};  ///< where the rank waits, its phase and step, or how the rank ended
};
BOOST_DESCRIBE_STRUCT(MissingRank, (), (rank, cause, host, pid, silent_for, doing))

/// A failure. `detail` is one sentence: what failed, the value and its limit, and what to do.
struct Failure {
  Code code = Code::internal;
  std::string detail;
  std::vector<MissingRank> missing;    ///< missing or lost ranks, at most limits::kMissingNamed
  std::vector<std::string> addresses;  ///< of the owners, or of daemons that may serve
  Duration retry_after{0};             ///< if unavailable: how long to wait before a retry
  bool recorded = false;  ///< true: this is a barrier's stored outcome, which every rank gets
  /// Of a refused hello: true if the daemon owns the job and is loading it. That is a sign of life,
  /// and the client says hello again on the same connection.
  bool loading = false;
};
BOOST_DESCRIBE_STRUCT(Failure, (),
                      (code, detail, missing, addresses, retry_after, recorded, loading))

/// Returns a Failure with a code and a text only.
inline Failure failure(Code code, std::string detail) {
  Failure out;
  out.code = code;
  out.detail = std::move(detail);
  return out;
}

template <class T>
using Result = boost::system::result<T, Failure>;

/// Boost calls this function if value() is called on a failure. Such a call is a bug. Prints the
/// failure and ends the process.
[[noreturn]] inline void throw_exception_from_error(const Failure& f,
                                                    const boost::source_location& where) {
  std::fprintf(stderr, "%s:%u: unchecked failure: %s: %s\n", where.file_name(),
               static_cast<unsigned>(where.line()), name_of(f.code).data(), f.detail.c_str());
  std::abort();
}

[[noreturn]] inline void assertion_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
  std::abort();
}

}  // namespace c10dd

#define C10DD_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::c10dd::assertion_failed(#condition, __FILE__, __LINE__))
