// SPDX-License-Identifier: Apache-2.0
// Reads the single values of a flight record: what an entry calls, at which line, with whom. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/flight_record.h"
#include "client/ctl/plain_value.h"
#include "protocol/error.h"

namespace c10dd::ctl {

/// Returns whether a file that begins so may be a flight record.
bool may_be_flight_record(std::string_view first_bytes);

/// Reads a pickle or JSON. Fails with invalid_argument.
Result<PlainValue> read_plain_value(std::string_view bytes);

/// Returns a member that is a text, or null.
const std::string* text_in(const PlainValue& of, std::string_view name);
/// Returns a member that is an integer, or `otherwise`.
std::int64_t integer_in(const PlainValue& of, std::string_view name, std::int64_t otherwise);
/// Returns whether a member is true.
bool boolean_in(const PlainValue& of, std::string_view name);

/// Returns the ranks of a list, or of a text such as "[0, 1]", in ascending order. Returns nothing
/// if it is something else.
std::optional<std::vector<std::uint32_t>> ranks_in(const PlainValue& value);

/// Returns the operation of a profiling name: "all_reduce" of "nccl:all_reduce".
std::string_view operation_in(std::string_view profiling_name);

/// Returns what an entry has issued. Leaves sizes out that may differ between ranks.
FlightCall called(std::string_view operation, const PlainValue& entry);

/// Reads "send 0->1" or "recv 1<-0".
std::optional<FlightMessage> message_in(std::string_view operation);

/// Returns the innermost line of code outside of PyTorch, such as "train.py:25"; empty if it is not
/// known.
std::string line_in(const PlainValue& entry);

}  // namespace c10dd::ctl
