// SPDX-License-Identifier: Apache-2.0
#include "collectives/pickle_writer.h"

#include <bit>
#include <limits>

namespace c10dd::collectives {

void PickleWriter::append(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
}

PickleWriter& PickleWriter::text(std::string_view value) {
  op('X').append(value.size(), 4);
  out_ += value;
  return *this;
}

PickleWriter& PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0 && value <= std::numeric_limits<std::uint8_t>::max()) {
    op('K').append(bits, 1);
  } else if (static_cast<std::int32_t>(value) == value) {
    op('J').append(bits, 4);
  } else {
    op('\x8A').op(8).append(bits, 8);
  }
  return *this;
}

PickleWriter& PickleWriter::number(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  op('G');
  for (int i = 7; i >= 0; --i) out_ += static_cast<char>(bits >> (8 * i));
  return *this;
}

}  // namespace c10dd::collectives
