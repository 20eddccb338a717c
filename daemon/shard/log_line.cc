// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/log_line.h"

#include <spdlog/spdlog.h>

namespace c10dd::daemon::detail {

void write_line(LogLevel level, const std::string& line) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::info, spdlog::level::warn,
                                                   spdlog::level::err, spdlog::level::critical};
  spdlog::log(kLevels[static_cast<std::size_t>(level)], "{}", line);
}

}  // namespace c10dd::daemon::detail
