// SPDX-License-Identifier: Apache-2.0
// The hash index of a KeySpace: finds the place of a key in its map. A large index has many parts,
// which grow one by one. So no insertion takes long: to move four million keys to a larger table
// at once would take a second, and the loop would answer nobody meanwhile.
#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/hash.h"

namespace c10dd::core {

/// `At` is an iterator of a map whose keys are unique and have view(). Its order depends on the
/// hash, so no effect may depend on it.
template <class At>
class KeyIndex {
 public:
  static constexpr std::size_t kParts = 256;
  static constexpr std::size_t kSmall = 16'384;  ///< up to so many keys are in one part

  /// Returns null if there is no such key. The pointer is valid until the next change.
  const At* find(std::string_view key) const {
    const Hashed hashed{key, hash_of(key)};
    const Part& part = parts_[part_of(hashed.hash)];
    const auto found = part.find(hashed);
    return found == part.end() ? nullptr : &*found;
  }

  /// The key of `at` must not be in the index.
  void insert(const At& at) {
    if (size_ == kSmall && parts_.size() == 1) split();
    parts_[part_of(hash_of(at->first))].insert(at);
    ++size_;
  }

  /// The key of `at` must be in the index.
  void erase(const At& at) { size_ -= parts_[part_of(hash_of(at->first))].erase(at); }

  std::size_t size() const { return size_; }

 private:
  struct Hashed {
    std::string_view key;
    std::size_t hash;
  };
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming)
    using is_avalanching = void;  // NOLINT(readability-identifier-naming)
    std::size_t operator()(const Hashed& key) const { return key.hash; }
    std::size_t operator()(const At& at) const { return hash_of(at->first); }
  };
  struct Equal {
    using is_transparent = void;  // NOLINT(readability-identifier-naming)
    bool operator()(const At& a, const At& b) const { return a == b; }
    bool operator()(const Hashed& a, const At& b) const { return a.key == b->first.view(); }
    bool operator()(const At& a, const Hashed& b) const { return b.key == a->first.view(); }
  };
  using Part = boost::unordered_flat_set<At, Hash, Equal>;

  /// A part uses the highest and the lowest bits of a hash, so this function uses others.
  std::size_t part_of(std::size_t hash) const {
    return parts_.size() == 1 ? 0 : (hash >> 8) % kParts;
  }

  void split() {
    std::vector<Part> parts(kParts);
    for (const At& at : parts_.front()) parts[(hash_of(at->first) >> 8) % kParts].insert(at);
    parts_ = std::move(parts);
  }

  std::vector<Part> parts_ = std::vector<Part>(1);  // one, or kParts
  std::size_t size_ = 0;
};

}  // namespace c10dd::core
