// SPDX-License-Identifier: Apache-2.0
// The result of an audit. The parts of a job keep sums and secondary indexes of their state. The
// audit of a part recounts these and looks for differences. An audit reads the whole state, so only
// tests and the simulator run audits.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>

namespace c10dd::core {

/// The first inconsistency, as text; empty if there is no inconsistency.
using AuditResult = std::optional<std::string>;

/// Compares a stored number with the recounted number. Returns text only if the numbers differ.
AuditResult differ(const char* what, std::size_t kept, std::size_t counted);

/// Returns the first text, or nullopt if there is none.
AuditResult first_difference(std::initializer_list<AuditResult> all);

}  // namespace c10dd::core
