// SPDX-License-Identifier: Apache-2.0
// A map from sequences to values, for values that come and go mostly in the order of their
// sequences: adding the last and removing the first rarely allocate, and take constant time on
// average. A removed value is destroyed later; the map holds at most as many removed values as
// others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace c10dd::core {

template <class T>
class SequenceMap {
 public:
  struct Entry {
    std::uint64_t first = 0;  ///< the sequence
    T second;
  };
  using Iterator = typename std::vector<Entry>::iterator;
  using ConstIterator = typename std::vector<Entry>::const_iterator;

  Iterator begin() { return entries_.begin() + front_; }
  Iterator end() { return entries_.end(); }
  ConstIterator begin() const { return entries_.begin() + front_; }
  ConstIterator end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size() - static_cast<std::size_t>(front_); }
  bool empty() const { return size() == 0; }

  ConstIterator find(std::uint64_t sequence) const {
    if (empty() || entries_.back().first < sequence) return end();
    const ConstIterator it = std::ranges::lower_bound(begin(), end(), sequence, {}, &Entry::first);
    return it == end() || it->first != sequence ? end() : it;
  }
  bool contains(std::uint64_t sequence) const { return find(sequence) != end(); }

  /// Adds a value unless there is one for this sequence; then `value` does not change. Returns the
  /// value of the sequence, and whether it was added. The reference is valid until the map changes.
  std::pair<T&, bool> try_emplace(std::uint64_t sequence, T&& value) {
    Iterator it = end();
    if (!empty() && entries_.back().first >= sequence) {
      it = std::ranges::lower_bound(begin(), end(), sequence, {}, &Entry::first);
      if (it->first == sequence) return {it->second, false};
    }
    if (it != end()) return {entries_.insert(it, {sequence, std::move(value)})->second, true};
    Entry& entry = entries_.emplace_back();
    entry.first = sequence;
    entry.second = std::move(value);
    return {entry.second, true};
  }

  /// Adds or replaces a value. Returns it; the reference is valid until the map changes.
  T& insert_or_assign(std::uint64_t sequence, T&& value) {
    const auto [there, added] = try_emplace(sequence, std::move(value));
    if (!added) there = std::move(value);
    return there;
  }

  /// Removes the value with the lowest sequence. The map must not be empty.
  void pop_front() {
    ++front_;
    if (empty()) {
      entries_.clear();
      if (entries_.capacity() > kKept) entries_.shrink_to_fit();
      front_ = 0;
    } else if (static_cast<std::size_t>(front_) > entries_.size() / 2) {
      entries_.erase(entries_.begin(), begin());
      front_ = 0;
    }
  }

  template <class Predicate>
  void erase_if(Predicate which) {
    entries_.erase(entries_.begin(), begin());
    front_ = 0;
    std::erase_if(entries_, which);
  }

 private:
  static constexpr std::size_t kKept = 32;  // an empty map keeps memory for at most so many entries

  std::vector<Entry> entries_;
  std::ptrdiff_t front_ = 0;  // index of the first entry that was not removed
};

}  // namespace c10dd::core
