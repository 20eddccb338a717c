// SPDX-License-Identifier: Apache-2.0
// Bytes of a fuzzer as decisions: numbers, choices, texts. After the last byte all is zero and
// empty, so that every input means something. seeds.cc writes inputs with InputWriter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  /// 0 .. n - 1, for n up to 256.
  std::size_t below(std::size_t n) { return byte() % n; }
  template <class T, std::size_t N>
  const T& one_of(const T (&choices)[N]) {
    static_assert(N <= 256);
    return choices[below(N)];
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  std::string_view bytes(std::size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  /// 0 .. 65,535
  std::size_t two_bytes() {
    const std::size_t high = byte();
    return high << 8 | byte();
  }
  /// Two bytes of length, then so many bytes, or what there is.
  std::string_view text() { return bytes(two_bytes()); }
  std::string_view rest() { return std::exchange(rest_, {}); }

 private:
  std::string_view rest_;
};

class InputWriter {
 public:
  InputWriter& byte(std::size_t value) {
    out_.push_back(static_cast<char>(value));
    return *this;
  }
  InputWriter& number(std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) byte(value >> shift & 0xFF);
    return *this;
  }
  InputWriter& bytes(std::string_view value) {
    out_.append(value);
    return *this;
  }
  InputWriter& text(std::string_view value) {
    return byte(value.size() >> 8).byte(value.size() & 0xFF).bytes(value);
  }
  Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

}  // namespace c10dd::fuzz
