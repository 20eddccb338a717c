// SPDX-License-Identifier: Apache-2.0
// The names in GroupOptions::backend: one backend for all tensors, such as "gloo", or one for each
// kind of device, such as "cpu:gloo,cuda:nccl".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/tensor.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// A backend, and the kind of device whose tensors it gets.
struct BackendName {
  Device::Kind kind;
  std::string name;
};

/// Returns whether `names` has backends for kinds of devices.
bool is_composite(std::string_view names);

/// Splits a text such as "cpu:gloo,cuda:nccl". Fails with `invalid_argument` if it has another
/// form, or the same kind twice.
Result<std::vector<BackendName>> split_names(std::string_view names);

/// Returns the name of the backend that gets tensors of this kind; those that no backend is named
/// for go to the first. Returns `names` if that is not a list.
std::string name_for(std::string_view names, Device::Kind kind);

/// Returns how many exchanges open_backend() makes for these names.
std::size_t exchanges_of(std::string_view names);

}  // namespace c10dd::collectives
