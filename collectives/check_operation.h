// SPDX-License-Identifier: Apache-2.0
// Checks the arguments of an operation before a process group accepts it.
#pragma once

#include "collectives/backend.h"
#include "collectives/operation.h"

namespace c10dd::collectives {

/// Throws InvalidArgument if a time-out of the group is not positive, or a hook is null.
void check_options(const GroupOptions& options, const World& world);

/// Throws InvalidArgument if no memory can have so many elements of a type, or for an unknown type.
void check_allocation(DType dtype, std::size_t count);

/// Empties the tensors and lists that an operation of this kind does not have, so that no backend
/// looks at them.
void clear_unused(Operation& operation);

/// Throws InvalidArgument if the arguments cannot be right whatever the other ranks issue: an
/// unknown operation, a root that is not a rank, tensors that do not fit each other or that are on
/// different streams, or a time-out that is not positive. Throws Error with code `unsupported` if
/// the backend lacks the operation.
void check(const Operation& operation, const World& world, const Backend& backend,
           std::string_view backend_name);

}  // namespace c10dd::collectives
