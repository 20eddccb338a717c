// SPDX-License-Identifier: Apache-2.0
// One all_gather of a hash for the normal case; a second one finds the first difference.
#include "ddp/agreement.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/wording.h"
#include "ddp/reducer.h"

namespace c10dd::ddp {
namespace {

// FNV-1a.
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
  group.all_gather_single(tensor_of(all), tensor_of(own))->wait();
  return all;
}

std::string described(const Parameter& parameter) {
  std::string text = "\"" + parameter.name + "\" " + std::string(name_of(parameter.value.dtype));
  text += " [";
  for (std::size_t i = 0; i < parameter.shape.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(parameter.shape[i]);
  }
  return text + "]";
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
    throw InvalidArgument("parameters differ: " + collectives::named(fewer_or_more) + " has " +
                          std::to_string(all[fewer_or_more.front() * 2]) + ", rank 0 has " +
                          std::to_string(all[0]) + "; build the same model on every rank");
  }
  if (different.empty()) return;
  // All ranks see the same numbers, so all of them take this second look.
  const std::vector<std::int64_t> each = gather(group, hashes);
  const std::size_t row = different.front() * hashes.size();
  std::size_t first = 0;
  while (first + 1 < hashes.size() && each[row + first] == each[first]) ++first;
  throw InvalidArgument("parameters differ: " + collectives::named(different) +
                        " from rank 0, first in parameter " + std::to_string(first) +
                        ", on this rank " + described(parameters[first]) +
                        "; build the same model on every rank");
}

}  // namespace c10dd::ddp
