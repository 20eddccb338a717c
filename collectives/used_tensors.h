// SPDX-License-Identifier: Apache-2.0
// The tensors of an operation that its kind uses. What a caller has left in its other fields is
// ignored.
#pragma once

#include <vector>

#include "collectives/operation.h"

namespace c10dd::collectives {

struct UsedTensors {
  std::vector<Tensor*> inputs;   ///< that are only read
  std::vector<Tensor*> outputs;  ///< that are written; those of an operation in place are read, too
};

/// Returns pointers into `operation`.
inline UsedTensors used_tensors(Operation& operation) {
  UsedTensors used;
  const Layout layout = info_of(operation.collective).layout;
  const bool reads = layout != Layout::none && layout != Layout::in_place;
  if (reads && layout != Layout::received) used.inputs.push_back(&operation.input);
  if (layout != Layout::none && layout != Layout::sent) used.outputs.push_back(&operation.output);
  if (!operation.lists) return used;
  for (Tensor& one : operation.inputs) used.inputs.push_back(&one);
  for (Tensor& one : operation.outputs) used.outputs.push_back(&one);
  // A list stands for the one tensor that would have the elements of all ranks.
  const bool gathers = layout == Layout::gathered || layout == Layout::gathered_at_root;
  const bool scatters = layout == Layout::split || layout == Layout::split_by_root;
  if (gathers || layout == Layout::exchanged) used.outputs.erase(used.outputs.begin());
  if (scatters || layout == Layout::exchanged) used.inputs.erase(used.inputs.begin());
  return used;
}

}  // namespace c10dd::collectives
