// SPDX-License-Identifier: Apache-2.0
// What a bound on processor time is multiplied with: sanitizers take their share.
#pragma once

namespace c10dd::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr double kSlowdown = 20;
#else
inline constexpr double kSlowdown = 1;
#endif

}  // namespace c10dd::test
