// SPDX-License-Identifier: Apache-2.0
// PickleWriter: writes plain values as a Python pickle of protocol 2, as PyTorch writes its flight
// records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace c10dd::collectives {

/// The calls follow each other as the values do: between begin_dict() and end_dict() keys and
/// values take turns.
class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x02"; }

  PickleWriter& text(std::string_view value);  ///< must be UTF-8
  PickleWriter& integer(std::int64_t value);
  PickleWriter& number(double value);
  PickleWriter& boolean(bool value) { return op(value ? '\x88' : '\x89'); }
  PickleWriter& none() { return op('N'); }
  PickleWriter& begin_dict() { return op('}').op('('); }
  PickleWriter& end_dict() { return op('u'); }
  PickleWriter& begin_list() { return op(']').op('('); }
  PickleWriter& end_list() { return op('e'); }
  /// Makes a tuple of the two values before.
  PickleWriter& pair() { return op('\x86'); }

  /// Returns the pickle of the one value that was written. Only once.
  std::string take() { return std::move(op('.').out_); }

 private:
  PickleWriter& op(char code) {
    out_ += code;
    return *this;
  }
  void append(std::uint64_t value, int bytes);  // the low byte first

  std::string out_;
};

}  // namespace c10dd::collectives
