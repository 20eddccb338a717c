// SPDX-License-Identifier: Apache-2.0
// What the programs exit with, by the meanings that sysexits.h gives the numbers. The tables for
// people (README.md, deploy/README.md, docs/c10drun.md) say what each program means by them; a test
// holds them to the lists here.
#pragma once

#include <array>

namespace c10dd::exit_code {

inline constexpr int kDone = 0;
inline constexpr int kUsage = 64;         ///< an option, a variable or a file is wrong
inline constexpr int kUnreachable = 69;   ///< a server does not answer
inline constexpr int kBug = 70;           ///< or a system call that should not fail
inline constexpr int kCannotCreate = 73;  ///< a folder or a file
inline constexpr int kTryAgain = 75;      ///< something that may be better soon
inline constexpr int kNoPermission = 77;
inline constexpr int kBadState = 78;  ///< damaged, less than was acknowledged, or of a newer format

/// What `c10dd` exits with.
inline constexpr std::array kDaemon{kDone,         kUsage,    kUnreachable,  kBug,
                                    kCannotCreate, kTryAgain, kNoPermission, kBadState};
/// What `c10drun` exits with, beside the codes of workers and signals.
inline constexpr std::array kLauncher{kDone, kUsage, kUnreachable, kBug, kCannotCreate, kTryAgain};

}  // namespace c10dd::exit_code
