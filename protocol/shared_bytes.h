// SPDX-License-Identifier: Apache-2.0
// Bytes that are encoded once and shared by many replies.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "protocol/types.h"

namespace c10dd {

/// A slice of an immutable buffer that many replies share. It is encoded as a byte string, and must
/// be the last field of its struct.
struct SharedBytes {
  std::shared_ptr<const Bytes> owner;
  std::size_t offset = 0;
  std::size_t length = 0;

  std::string_view view() const {
    return owner ? std::string_view(*owner).substr(offset, length) : std::string_view();
  }
};

}  // namespace c10dd
