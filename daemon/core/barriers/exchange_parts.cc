// SPDX-License-Identifier: Apache-2.0
// The four shapes of exchanges: how many parts each rank gives, and which parts each rank gets.
#include "daemon/core/barriers/barriers.h"
#include "protocol/fields.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

/// Appends encoded lists of parts to a buffer. write() returns the offset and size of the new list.
class ListWriter {
 public:
  explicit ListWriter(Bytes& buffer) : buffer_(buffer), writer_(buffer) {}

  template <class Parts>
  std::pair<std::size_t, std::size_t> write(const Parts& parts) {
    const std::size_t at = buffer_.size();
    writer_.put(static_cast<std::uint32_t>(std::size(parts)));
    for (const Bytes* part : parts) writer_.put(*part);
    return {at, buffer_.size() - at};
  }

 private:
  Bytes& buffer_;
  wire::Writer writer_;
};

}  // namespace

Result<void> check_parts(const BarrierKey& key, Rank rank, const Arrival& arrival) {
  const std::size_t n = arrival.world_size;
  const std::size_t given = arrival.parts.size();
  bool good = false;
  std::string expected;
  switch (arrival.shape) {
    case Shape::all:
    case Shape::to_root:
      good = given == 1;
      expected = "1";
      break;
    case Shape::from_root:
      good = rank == arrival.root ? given == 1 || given == n : given == 0;
      expected = rank == arrival.root ? "1 or " + std::to_string(n) : "0";
      break;
    case Shape::transpose:
      good = given == n;
      expected = std::to_string(n);
      break;
    default:
      return failure(Code::invalid_argument, "{}: unknown shape {}", describe(key),
                     static_cast<int>(arrival.shape));
  }
  if (good) return {};
  return failure(Code::size_mismatch, "{}: rank {} sent {} parts, but the shape needs {}",
                 describe(key), rank, given, expected);
}

void assemble(BarrierState& barrier) {
  auto buffer = std::make_shared<Bytes>();
  ListWriter list(*buffer);
  const std::uint32_t n = barrier.world_size;
  std::vector<const Bytes*> parts;
  const std::vector<const Bytes*> none;
  barrier.slices.clear();
  const auto part = [&](Rank giver, std::size_t i) -> const Bytes* {
    return &barrier.arrivals.at(giver).parts[i];
  };
  if (barrier.shape == Shape::all || barrier.shape == Shape::to_root) {
    for (Rank r = 0; r < n; ++r) parts.push_back(part(r, 0));
    const auto all = list.write(parts);
    const auto nothing = list.write(none);
    for (Rank r = 0; r < n; ++r) {
      const bool gets = barrier.shape == Shape::all || r == barrier.root;
      barrier.slices.push_back(gets ? all : nothing);
    }
  } else if (barrier.shape == Shape::from_root) {
    // The root gives either one part for each rank, or a single part for all ranks.
    const bool own = barrier.arrivals.at(barrier.root).parts.size() == n;
    for (Rank r = 0; r < n; ++r) {
      if (own || r == 0) {
        barrier.slices.push_back(list.write(std::vector{part(barrier.root, own ? r : 0)}));
      } else {
        barrier.slices.push_back(barrier.slices.front());
      }
    }
  } else {
    for (Rank r = 0; r < n; ++r) {
      parts.clear();
      for (Rank giver = 0; giver < n; ++giver) parts.push_back(part(giver, r));
      barrier.slices.push_back(list.write(parts));
    }
  }
  barrier.result = std::move(buffer);
}

}  // namespace c10dd::core
