// SPDX-License-Identifier: Apache-2.0
// Defines the fields of the row in which a key is stored.
#pragma once

#include <boost/describe/class.hpp>

#include "protocol/blob.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The value of a key row. `ttl` and `owner` are omitted if both are zero, as in most rows.
struct KeyRow {
  Revision revision = 0;
  Blob value;
  Duration ttl{0};
  SessionId owner{};
};
BOOST_DESCRIBE_STRUCT(KeyRow, (), (revision, value, ttl, owner))

}  // namespace c10dd::core
