// SPDX-License-Identifier: Apache-2.0
// The rows of a change, one after another in one buffer, so that adding a row rarely allocates.
#pragma once

#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>

#include "protocol/types.h"

namespace c10dd {

/// A row in a Rows object. Points into the object, and is valid until the object changes.
struct RowView {
  Row::Kind kind;
  std::string_view key;
  std::string_view value;

  operator Row() const { return {kind, Bytes(key), Bytes(value)}; }
  bool operator==(const RowView&) const = default;
};

/// A sequence of rows, which apply in order.
class Rows {
  struct Head {
    std::uint32_t key_bytes;
    std::uint32_t value_bytes;
    std::uint32_t kind;  // as wide as the others, so that no byte of a Head is undefined
  };

 public:
  Rows() = default;
  Rows(std::initializer_list<Row> rows) : Rows(std::span(rows.begin(), rows.size())) {}
  explicit Rows(std::span<const Row> rows) {
    for (const Row& row : rows) push_back(row);
  }

  /// Sets whether rows are kept. If not, they are only counted: for a job whose rows nobody stores.
  /// Must be called while there are no rows.
  void keep(bool kept) { keeps_ = kept; }
  bool keeps() const { return keeps_; }
  /// Counts a row that is not kept.
  void count() { ++count_; }

  /// Adds a row with uninitialised bytes. Returns where its key must be written; the value follows
  /// the key. Call it for sizes below 4 GiB, and only if rows are kept.
  char* add(Row::Kind kind, std::size_t key_bytes, std::size_t value_bytes) {
    const Head head{static_cast<std::uint32_t>(key_bytes), static_cast<std::uint32_t>(value_bytes),
                    static_cast<std::uint32_t>(kind)};
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof head + key_bytes + value_bytes);
    std::memcpy(bytes_.data() + at, &head, sizeof head);
    ++count_;
    return bytes_.data() + at + sizeof head;
  }
  void add(Row::Kind kind, std::string_view key, std::string_view value) {
    if (!keeps_) return count();
    char* at = add(kind, key.size(), value.size());
    key.copy(at, key.size());
    value.copy(at + key.size(), value.size());
  }
  void push_back(const Row& row) { add(row.kind, row.key, row.value); }
  void append(const Rows& rows) {
    bytes_ += rows.bytes_;
    count_ += rows.count_;
  }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Returns the total size of the keys and values that are kept, in bytes.
  std::size_t bytes() const { return keeps_ ? bytes_.size() - count_ * sizeof(Head) : 0; }
  std::size_t capacity() const { return bytes_.capacity(); }
  /// Removes all rows, and keeps the memory.
  void clear() {
    bytes_.clear();
    count_ = 0;
  }

  class Iterator {
   public:
    using value_type = RowView;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(const char* at) : at_(at) {}
    RowView operator*() const {
      const Head head = this->head();
      const char* const key = at_ + sizeof head;
      return {static_cast<Row::Kind>(head.kind),
              {key, head.key_bytes},
              {key + head.key_bytes, head.value_bytes}};
    }
    Iterator& operator++() {
      const Head head = this->head();
      at_ += sizeof head + head.key_bytes + head.value_bytes;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Head head() const {
      Head head;
      std::memcpy(&head, at_, sizeof head);
      return head;
    }

    const char* at_ = nullptr;
  };

  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + bytes_.size()); }
  /// Returns the row at an index, in linear time.
  RowView operator[](std::size_t index) const {
    Iterator it = begin();
    while (index-- > 0) ++it;
    return *it;
  }

  bool operator==(const Rows&) const = default;

 private:
  Bytes bytes_;
  std::size_t count_ = 0;
  bool keeps_ = true;
};

}  // namespace c10dd
