// SPDX-License-Identifier: Apache-2.0
// How expected failures travel: Failure is what went wrong, Result<T> is either. Bugs are
// C10DD_ASSERT, which stays on in release builds.
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

/// A rank that a wait was waiting for, with what the daemon knows of it.
struct MissingRank {
  enum class Cause : std::uint8_t {
    never_connected = 0,  ///< no session ever said that it is this rank
    not_arrived = 1,      ///< its session is connected, but has not arrived here
    disconnected = 2,     ///< its session has no connection now
    elsewhere = 3,        ///< arrived at another barrier or generation
    silent = 4,           ///< connected, but its heartbeats stopped
    dead = 5,
    absent = 6,  ///< arrived, but its session has no connection now
  };

  Rank rank = 0;
  Cause cause = Cause::never_connected;
  std::string host;  ///< empty when never connected
  std::uint64_t pid = 0;
  Duration silent_for{0};  ///< since its last sign of life
  std::string doing = {};  ///< where it is instead, its phase and step, or how it ended
};
BOOST_DESCRIBE_STRUCT(MissingRank, (), (rank, cause, host, pid, silent_for, doing))

/// What went wrong. `detail` is one sentence: what, evidence, limit; what to look at.
struct Failure {
  Code code = Code::internal;
  std::string detail;
  std::vector<MissingRank> missing;    ///< of a timed-out barrier or exchange, at most a few
  std::vector<std::string> addresses;  ///< of not_owner: where to go
  Duration retry_after{0};             ///< of unavailable: not before
  bool recorded = false;  ///< the outcome of a barrier: every rank gets this one, early or late
};
BOOST_DESCRIBE_STRUCT(Failure, (), (code, detail, missing, addresses, retry_after, recorded))

inline Failure failure(Code code, std::string detail) {
  return Failure{code, std::move(detail), {}, {}, Duration{0}, false};
}

template <class T>
using Result = boost::system::result<T, Failure>;

/// Bugs are loud: value() on a failure ends the process with the failure's text.
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
