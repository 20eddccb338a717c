// SPDX-License-Identifier: Apache-2.0
// Any bytes as a slot of the high-water file, and once more with a check sum that is right: a slot
// that is accepted holds a mark that is written and read back as the same.
#include <boost/crc.hpp>

#include "protocol/fields.h"
#include "store/rocks/high_water.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::Bytes;
namespace store = c10dd::store;

void check(std::string_view bytes) {
  const auto slot = store::decode_high_water_slot(bytes);
  if (!slot) {
    C10DD_ASSERT(!slot.error().detail.empty());
    return;
  }
  const Bytes once = store::encode_high_water_slot(*slot);
  C10DD_ASSERT(once.size() == store::kHighWaterSlotBytes);
  const auto again = store::decode_high_water_slot(once);
  C10DD_ASSERT(again && again->turn == slot->turn && again->mark == slot->mark);
}

}  // namespace

C10DD_FUZZ(high_water) {
  c10dd::fuzz::Input in(data, size);
  check(in.rest());
  Bytes slot(reinterpret_cast<const char*>(data), std::min(size, store::kHighWaterSlotBytes));
  slot.resize(store::kHighWaterSlotBytes, '\0');
  check(slot);
  constexpr std::size_t kHeaderBytes = 24;  // magic, format, length, turn
  constexpr std::size_t kLengthAt = 12;
  std::uint32_t length = 0;
  c10dd::wire::Reader(std::string_view(slot).substr(kLengthAt)).get(length);
  length %= store::kHighWaterSlotBytes - kHeaderBytes - sizeof length;
  boost::crc_32_type crc;
  crc.process_bytes(slot.data(), kHeaderBytes + length);
  Bytes sum;
  c10dd::wire::Writer(sum).put(crc.checksum());
  slot.replace(kHeaderBytes + length, sum.size(), sum);
  check(slot);
  return 0;
}
