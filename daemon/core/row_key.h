// SPDX-License-Identifier: Apache-2.0
// Builds and reads the keys of rows. A key is a kind letter, then fields in an order-preserving
// form. Numbers are big endian, and texts inside a key have a length prefix. Therefore keys with
// different fields are never equal, and no barrier's key is a prefix of another barrier's key.
// Kinds in a job: 'k' key, 'r' stored reply, 'a' arrival, 'o' outcome. For the other kinds see
// sessions.h, queues.cc, history.cc and group/rows.h. Kinds in the directory: 'i', 'n', 'j', 'm'
// (see directory.cc) and 'e' (see endpoints.cc).
#pragma once

#include <string_view>
#include <utility>

#include "protocol/fields.h"
#include "protocol/rows.h"

namespace c10dd::core {

class RowKey {
 public:
  explicit RowKey(char kind) : key_(1, kind) {}

  RowKey& number(std::uint64_t n) {
    const std::uint64_t big_endian = __builtin_bswap64(n);
    key_.append(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
    return *this;
  }
  RowKey& text(std::string_view t) {
    number(t.size());
    return rest(t);
  }
  RowKey& rest(std::string_view t) {
    key_.append(t);
    return *this;
  }
  Bytes take() { return std::move(key_); }

 private:
  Bytes key_;
};

/// Adds a row whose key is `kind` and `name`, and whose value is `value` in encoded form. Writes
/// both in place.
template <wire::Described T>
void put_row(Rows& rows, char kind, std::string_view name, const T& value) {
  if (!rows.keeps()) return rows.count();
  char* at = rows.add(Row::Kind::put, 1 + name.size(), wire::size_of_fields(value));
  *at++ = kind;
  name.copy(at, name.size());
  wire::ByteStore store{at + name.size()};
  wire::FieldEncoder(store).put_fields(value);
}

/// Reads the fields of a key, after the kind letter. complete() is true when all bytes have been
/// read and no field was cut short.
class RowKeyReader {
 public:
  explicit RowKeyReader(std::string_view key) : rest_(key.substr(key.empty() ? 0 : 1)) {}

  std::uint64_t number() {
    if (rest_.size() < 8) {
      short_ = true;
      return 0;
    }
    std::uint64_t n = 0;
    for (int i = 0; i < 8; ++i) n = n << 8 | static_cast<unsigned char>(rest_[i]);
    rest_.remove_prefix(8);
    return n;
  }
  std::string_view text() {
    const std::uint64_t length = number();
    if (short_ || length > rest_.size()) {
      short_ = true;
      return {};
    }
    const std::string_view t = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return t;
  }
  std::string_view rest() { return std::exchange(rest_, {}); }
  bool complete() const { return !short_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool short_ = false;
};

}  // namespace c10dd::core
