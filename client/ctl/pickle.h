// SPDX-License-Identifier: Apache-2.0
// Reads Python's pickles, protocols 0 to 5, as far as they have plain values: what PyTorch writes
// as a flight record, and what pickle.dump() writes of dicts, lists, tuples, texts, bytes and
// numbers. Runs nothing: a pickle that imports or calls something is refused. Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "client/ctl/plain_value.h"
#include "protocol/error.h"

namespace c10dd::ctl {

/// Reads a whole pickle; a tuple becomes a list, and bytes become a text. Fails with
/// invalid_argument. The text says what is wrong, and at which byte.
Result<PlainValue> read_pickle(std::string_view bytes);

}  // namespace c10dd::ctl
