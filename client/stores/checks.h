// SPDX-License-Identifier: Apache-2.0
// The limits and texts of the daemon's store, for the stores that have no daemon to check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/store.h"
#include "protocol/error.h"

namespace c10dd::client {

// These throw as Store says.
void check_key(const std::string& key);
void check_value(const std::string& key, std::size_t bytes);
void check_count(const char* op, std::size_t keys);
void check_keys(const char* op, const std::vector<std::string>& keys);
void check_pairs(const std::vector<std::string>& keys, const std::vector<std::string>& values);

/// Returns the first text, in byte order, behind all that begin with `prefix`; empty if there is
/// none.
std::string end_of_prefix(std::string prefix);

Failure value_too_large(const std::string& key, std::size_t bytes);
/// Returns the failure of an add() whose sum does not fit 64 bits.
Failure sum_overflows(std::int64_t value, std::int64_t delta);
/// Returns the failure of a queue_pop() that found no item: not_found without a time-out, else
/// timed_out.
Failure queue_is_empty(const std::string& key, Store::Timeout timeout);

}  // namespace c10dd::client
