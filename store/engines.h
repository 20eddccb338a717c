// SPDX-License-Identifier: Apache-2.0
// The engines that open_engine() chooses from, one function per engine. Each takes what follows
// the scheme in its URL.
#pragma once

#include <memory>
#include <string_view>

#include "store/engine.h"

namespace c10dd::store {

/// Rows live as long as the object. For tests and throw-away jobs.
Result<std::unique_ptr<Engine>> open_memory_engine(std::string_view rest,
                                                   const OpenOptions& options);

/// `rest` is the path of a state directory, created if need be and held until destruction.
Result<std::unique_ptr<Engine>> open_rocks_engine(std::string_view rest,
                                                  const OpenOptions& options);

/// `rest` is //[[user]:password@]host[:port][/prefix].
Result<std::unique_ptr<Engine>> open_redis_engine(std::string_view rest,
                                                  const OpenOptions& options);

}  // namespace c10dd::store
