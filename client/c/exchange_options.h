// SPDX-License-Identifier: Apache-2.0
// Reads the options that the exchanges of a client and of a membership have in common.
#pragma once

#include <c10dd.h>
#include "client/exchange.h"

namespace c10dd::c {

/// Reads shape and root. Throws InvalidArgument for an unknown shape.
ExchangeOptions exchange_of(const c10dd_barrier_options& from);

}  // namespace c10dd::c
