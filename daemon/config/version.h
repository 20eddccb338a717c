// SPDX-License-Identifier: Apache-2.0
// The version of the daemon, defined by the build.
#pragma once

#ifndef C10DD_VERSION
#error "the build defines C10DD_VERSION"
#endif

namespace c10dd::daemon {
inline constexpr const char* kVersion = C10DD_VERSION;
}  // namespace c10dd::daemon
