// SPDX-License-Identifier: Apache-2.0
// What a worker wrote into TORCHELASTIC_ERROR_FILE before it ended: torch.distributed.elastic's
// @record writes {"message": {"message": "RuntimeError: ...", "extraInfo": {...}}}, other programs
// {"message": "..."}.
#pragma once

#include <string>

namespace c10dd::run {

/// At most so much of a file is looked at.
inline constexpr std::size_t kErrorFileBytes = 1024 * 1024;

/// The message, as it is; empty when there is no file, or none that says one. Never waits.
std::string read_error_file(const std::string& path);

}  // namespace c10dd::run
