// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes structs field by field. BOOST_DESCRIBE_STRUCT lists the fields of a struct.
// PROTOCOL.md has the grammar.
// A struct is encoded as its fields in order; a nested struct has a length prefix. A reader accepts
// structs of other versions: it ignores extra bytes at the end, and fields that are missing at the
// end keep their defaults. Decoding fails with Code::malformed if a field is cut short. A list has
// at most limits::kListElements elements, so that decoding cannot use much more memory than its
// input.
#pragma once

#include <bit>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/ops.h"

namespace c10dd::wire {

static_assert(std::endian::native == std::endian::little, "the wire is little endian");

template <class T>
concept Described = boost::describe::has_describe_members<T>::value;

template <class T>
concept Scalar = std::is_integral_v<T> || std::is_enum_v<T>;

/// Counts the bytes of encoded fields, for FieldEncoder.
struct ByteCounter {
  std::size_t size = 0;

  void put(const void*, std::size_t bytes) { size += bytes; }
};

/// Stores the bytes of encoded fields one after another at `at`, for FieldEncoder.
struct ByteStore {
  char* at;

  void put(const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(at, from, bytes);
    at += bytes;
  }
};

template <class T>
std::size_t encoded_size(const T& value);
template <Described T>
std::size_t size_of_fields(const T& value);

/// Encodes fields into `out`, a ByteCounter or a ByteStore. A length has 32 bits; the caller checks
/// that this is enough.
template <class Out>
class FieldEncoder {
 public:
  explicit FieldEncoder(Out& out) : out_(out) {}

  template <Scalar T>
  void put(T value) {
    out_.put(&value, sizeof value);
  }
  void put(std::string_view value) {
    put(static_cast<std::uint32_t>(value.size()));
    out_.put(value.data(), value.size());
  }
  void put(const std::string& value) { put(std::string_view(value)); }
  void put(const Blob& value) { put(value.view()); }
  void put(const SharedBytes& value) { put(value.view()); }
  void put(Duration value) { put(static_cast<std::int64_t>(value.count())); }
  void put(const SessionId& id) {
    put(id.high);
    put(id.low);
  }
  void put(const Stamp& stamp) {
    put(stamp.incarnation);
    put(stamp.epoch);
    put(stamp.revision);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) put(value);
  }
  void put(const std::map<std::string, std::string>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const auto& [key, value] : values) {
      put(key);
      put(value);
    }
  }
  template <Described T>
  void put(const T& value) {
    put(static_cast<std::uint32_t>(size_of_fields(value)));
    put_fields(value);
  }
  template <Described T>
  void put_fields(const T& value) {
    using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
    boost::mp11::mp_for_each<Fields>([&](auto field) { put(value.*field.pointer); });
  }

 private:
  Out& out_;
};

/// Returns the number of bytes that Writer::put(value) appends.
template <class T>
std::size_t encoded_size(const T& value) {
  ByteCounter counter;
  FieldEncoder(counter).put(value);
  return counter.size;
}

/// Returns the number of bytes that Writer::put_fields(value) appends.
template <Described T>
std::size_t size_of_fields(const T& value) {
  ByteCounter counter;
  FieldEncoder(counter).put_fields(value);
  return counter.size;
}

/// Appends fields to a byte string, which grows once for each call.
class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out) {}

  template <class T>
  void put(const T& value) {
    ByteStore store = grow(encoded_size(value));
    FieldEncoder(store).put(value);
  }
  template <Described T>
  void put_fields(const T& value) {
    ByteStore store = grow(size_of_fields(value));
    FieldEncoder(store).put_fields(value);
  }

 private:
  ByteStore grow(std::size_t bytes) {
    const std::size_t at = out_.size();
    out_.resize(at + bytes);
    return {out_.data() + at};
  }

  Bytes& out_;
};

/// Says whether decoded Blobs own their bytes, or borrow them from the input.
enum class Blobs : std::uint8_t { own, borrow };

/// Reads fields that a Writer has written. After a get() has failed, ok() returns false, and
/// offset() returns the position at which the get() failed.
class Reader {
 public:
  explicit Reader(std::string_view in, Blobs blobs = Blobs::own)
      : begin_(in.data()), in_(in), blobs_(blobs) {}

  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }
  std::size_t offset() const { return static_cast<std::size_t>(in_.data() - begin_); }
  /// If a get() failed because a list was too long, returns the length of that list; otherwise 0.
  std::size_t too_many() const { return too_many_; }

  template <Scalar T>
  void get(T& value) {
    if (in_.size() < sizeof value) return fail();
    if constexpr (std::is_same_v<T, bool>) {
      value = in_.front() != 0;
    } else {
      std::memcpy(&value, in_.data(), sizeof value);
    }
    in_.remove_prefix(sizeof value);
  }
  void get(std::string& value) {
    const std::string_view bytes = take();
    if (ok_) value.assign(bytes);
  }
  void get(Blob& value) {
    const std::string_view bytes = take();
    if (ok_) value = blobs_ == Blobs::borrow ? Blob::borrow(bytes) : Blob(bytes);
  }
  void get(SharedBytes& value) {
    const std::string_view bytes = take();
    if (ok_) value = {std::make_shared<const Bytes>(bytes), 0, bytes.size()};
  }
  void get(Duration& value) {
    std::int64_t count = 0;
    get(count);
    if (ok_) value = Duration(count);
  }
  void get(SessionId& id) {
    get(id.high);
    get(id.low);
  }
  void get(Stamp& stamp) {
    get(stamp.incarnation);
    get(stamp.epoch);
    get(stamp.revision);
  }
  template <class T>
  void get(std::vector<T>& values) {
    std::uint32_t count = take_count();
    values.clear();
    // Reserves no more than the input can hold, so that a forged count cannot use much memory.
    values.reserve(std::min<std::size_t>(count, in_.size() / kMinimumSize<T>));
    while (ok_ && count-- > 0) get(values.emplace_back());
  }
  void get(std::map<std::string, std::string>& values) {
    std::uint32_t count = take_count();
    values.clear();
    while (ok_ && count-- > 0) {
      std::string key;
      get(key);
      get(values[std::move(key)]);
    }
  }
  template <Described T>
  void get(T& value) {
    Reader nested(take(), blobs_);
    if (!ok_) return;
    nested.get_fields(value);
    ok_ = nested.ok_;
    too_many_ = nested.too_many_;
  }
  template <Described T>
  void get_fields(T& value) {
    using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
    boost::mp11::mp_for_each<Fields>([&](auto field) {
      if (ok_ && !at_end()) get(value.*field.pointer);
    });
  }

 private:
  template <class T>
  static constexpr std::size_t kMinimumSize = Scalar<T> ? sizeof(T) : sizeof(std::uint32_t);

  void fail() { ok_ = false; }
  /// Reads a length, and returns that many bytes. Fails if the input has fewer bytes.
  std::string_view take() {
    std::uint32_t length = 0;
    get(length);
    if (!ok_ || in_.size() < length) {
      fail();
      return {};
    }
    const std::string_view bytes = in_.substr(0, length);
    in_.remove_prefix(length);
    return bytes;
  }
  /// Reads the length of a list. Fails if the length exceeds the limit or the number of bytes left.
  std::uint32_t take_count() {
    std::uint32_t count = 0;
    get(count);
    if (ok_ && count > limits::kListElements) too_many_ = count;
    if (too_many_ != 0 || count > in_.size()) fail();  // because each element has a byte or more
    return ok_ ? count : 0;
  }

  const char* begin_;
  std::string_view in_;
  std::size_t too_many_ = 0;
  const Blobs blobs_;
  bool ok_ = true;
};

/// Encodes the fields of a struct without a length prefix, as in the body of a frame or the value
/// of a row.
template <Described T>
Bytes encode(const T& value) {
  Bytes out;
  Writer(out).put_fields(value);
  return out;
}

/// Decodes a struct without a length prefix into `value`. Fails with Code::malformed or
/// Code::too_large; `value` may then have changed.
template <Described T>
Result<void> decode_into(T& value, std::string_view in, Blobs blobs = Blobs::own) {
  Reader reader(in, blobs);
  reader.get_fields(value);
  if (reader.too_many() != 0) {
    return failure(Code::too_large, "a list has {} elements, limit {}", reader.too_many(),
                   limits::kListElements);
  }
  if (!reader.ok()) {
    return failure(Code::malformed, "malformed message: the field at byte {} of {} is cut short",
                   reader.offset(), in.size());
  }
  return {};
}

/// Decodes and returns a struct without a length prefix. Fails as decode_into() does.
template <Described T>
Result<T> decode(std::string_view in) {
  T value;
  if (Result<void> decoded = decode_into(value, in); !decoded) return decoded.error();
  return value;
}

}  // namespace c10dd::wire
