// SPDX-License-Identifier: Apache-2.0
// Reads the error that a worker wrote into TORCHELASTIC_ERROR_FILE before the worker ended. The
// decorator @record of torch.distributed.elastic writes {"message": {"message": "RuntimeError:
// ...", "extraInfo": {...}}}. Other programs write {"message": "..."}.
#pragma once

#include <string>

namespace c10dd::run {

/// A longer file is ignored.
inline constexpr std::size_t kErrorFileBytes = 1024 * 1024;

/// Returns the worker's message unchanged, or "" if there is no file or message. Does not block.
std::string read_error_file(const std::string& path);

}  // namespace c10dd::run
