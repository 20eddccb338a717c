// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/audit.h"

#include "protocol/format.h"

namespace c10dd::core {

AuditResult differ(const char* what, std::size_t kept, std::size_t counted) {
  if (kept == counted) return std::nullopt;
  return format("{}: {} kept, {} counted", what, kept, counted);
}

AuditResult first_difference(std::initializer_list<AuditResult> all) {
  for (const AuditResult& one : all) {
    if (one) return one;
  }
  return std::nullopt;
}

}  // namespace c10dd::core
