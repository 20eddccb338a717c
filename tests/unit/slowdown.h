// SPDX-License-Identifier: Apache-2.0
// Factor for limits of processor time: sanitizers make a program slower.
#pragma once

namespace c10dd::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr double kSlowdown = 20;
#else
inline constexpr double kSlowdown = 1;
#endif

}  // namespace c10dd::test
