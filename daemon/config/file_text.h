// SPDX-License-Identifier: Apache-2.0
// Reads small files whole.
#pragma once

#include <string>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Returns the bytes of a file. Fails with invalid_argument if it cannot be read, or has more than
/// a MiB. The failure begins with `what`, which names the file.
Result<std::string> file_text(const std::string& path, const std::string& what);

}  // namespace c10dd::daemon
