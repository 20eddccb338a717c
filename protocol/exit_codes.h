// SPDX-License-Identifier: Apache-2.0
// Exit codes of the programs, with the meanings of sysexits.h. The tables in README.md,
// deploy/README.md, docs/c10ddctl.md and docs/c10drun.md explain the codes of each program. A test
// compares these tables with the lists in this file.
#pragma once

#include <array>

namespace c10dd::exit_code {

inline constexpr int kDone = 0;
inline constexpr int kUsage = 64;         ///< invalid option, environment variable or file
inline constexpr int kUnreachable = 69;   ///< a server does not answer
inline constexpr int kBug = 70;           ///< a bug, or an unexpected failure of a system call
inline constexpr int kCannotCreate = 73;  ///< cannot create a folder or a file
inline constexpr int kTryAgain = 75;      ///< a temporary failure: another try may help
inline constexpr int kNoPermission = 77;
inline constexpr int kBadState = 78;  ///< the state is damaged, rolled back or in a newer format

/// Exit codes of `c10dd`.
inline constexpr std::array kDaemon{kDone,         kUsage,    kUnreachable,  kBug,
                                    kCannotCreate, kTryAgain, kNoPermission, kBadState};
/// The own exit codes of `c10drun`. Other codes come from a worker, or are 128 + a signal's number.
inline constexpr std::array kLauncher{kDone, kUsage, kUnreachable, kBug, kCannotCreate, kTryAgain};
/// Exit codes of `c10ddctl`.
inline constexpr std::array kControl{kDone,         kUsage,    kUnreachable, kBug,
                                     kCannotCreate, kTryAgain, kNoPermission};

}  // namespace c10dd::exit_code
