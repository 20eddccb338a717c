// SPDX-License-Identifier: Apache-2.0
// Faults that backends have had, planted between the cells and a group, to see whether cells turn
// red.
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "collectives/process_group.h"

namespace c10dd::matrix {

inline constexpr std::array<std::string_view, 13> kFaults = {
    "max is sum",  // the reduction is not passed on
    "root is off by one",
    "last element is not done",  // a segment ends too early
    "one bit differs on rank 1",
    "avg is not divided",
    "input is overwritten",
    "first two parts are swapped",
    "elements of 8 bytes are 4",  // the size of the type is wrong
    "NaN is dropped on rank 1",
    "avg is summed first",  // the sum overflows
    "avg of floats is summed first",
    "last element behind 64 KiB is not done",    // an offset has 16 bits; only large cells find it
    "only the first rank of a process is done",  // something is static; only threads find it
};

/// Returns a group that runs its operations on `group` with the fault kFaults[fault].
std::shared_ptr<ProcessGroup> with_fault(std::shared_ptr<ProcessGroup> group, std::size_t fault);

}  // namespace c10dd::matrix
