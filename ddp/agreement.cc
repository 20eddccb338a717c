// SPDX-License-Identifier: Apache-2.0
// Gathers one hash of all parameters from every rank. If the hashes differ, gathers a hash of each
// parameter to find the first parameter that differs.
#include "ddp/agreement.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/wording.h"
#include "ddp/reducer.h"
#include "protocol/format.h"

namespace c10dd::ddp {
namespace {

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * kPrime;
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      value_ = (value_ ^ (number >> shift & 0xff)) * kPrime;
  }
  std::int64_t value() const { return static_cast<std::int64_t>(value_); }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001b3u;
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

std::int64_t hash_of(const Parameter& parameter) {
  Hash hash;
  hash.add(parameter.name.size());
  hash.add(parameter.name);
  hash.add(static_cast<std::uint64_t>(parameter.value.dtype));
  hash.add(parameter.value.count);
  hash.add(parameter.shape.size());
  for (const std::size_t extent : parameter.shape) hash.add(extent);
  return hash.value();
}

std::vector<std::int64_t> gather(ProcessGroup& group, std::vector<std::int64_t> own) {
  std::vector<std::int64_t> all(own.size() * group.size());
  group.all_gather_single(tensor_of(all), tensor_of(own));
  return all;
}

std::string described(const Parameter& parameter) {
  std::string extents;
  for (const std::size_t extent : parameter.shape) {
    extents += (extents.empty() ? "" : ",") + std::to_string(extent);
  }
  return format("\"{}\" {} [{}]", parameter.name, name_of(parameter.value.dtype), extents);
}

}  // namespace

void require_equal_parameters(ProcessGroup& group, const std::vector<Parameter>& parameters) {
  std::vector<std::int64_t> hashes;
  Hash whole;
  for (const Parameter& parameter : parameters) {
    hashes.push_back(hash_of(parameter));
    whole.add(static_cast<std::uint64_t>(hashes.back()));
  }
  const auto count = static_cast<std::int64_t>(parameters.size());
  const std::vector<std::int64_t> all = gather(group, {count, whole.value()});
  std::vector<Rank> fewer_or_more;
  std::vector<Rank> different;
  for (Rank rank = 1; rank < group.size(); ++rank) {
    if (all[rank * 2] != all[0]) fewer_or_more.push_back(rank);
    if (all[rank * 2 + 1] != all[1]) different.push_back(rank);
  }
  if (!fewer_or_more.empty()) {
    throw InvalidArgument(format(
        "the model has {} parameters on {}, but {} on rank 0; build the same model on every rank",
        all[fewer_or_more.front() * 2], collectives::named(fewer_or_more), all[0]));
  }
  if (different.empty()) return;
  // All ranks compare the same hashes, so either all ranks or none reach this second collective.
  const std::vector<std::int64_t> each = gather(group, hashes);
  const std::size_t row = different.front() * hashes.size();
  std::size_t first = 0;
  while (first + 1 < hashes.size() && each[row + first] == each[first]) ++first;
  throw InvalidArgument(
      format("the parameters of {} differ from rank 0, first in parameter {} ({} on this rank); "
             "build the same model on every rank",
             collectives::named(different), first, described(parameters[first])));
}

}  // namespace c10dd::ddp
