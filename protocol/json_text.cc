// SPDX-License-Identifier: Apache-2.0
#include "protocol/json_text.h"

#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>

namespace c10dd::json {
namespace {

void write(std::string& out, const boost::json::value& value);

void write(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  std::array<char, 1200> digits;  // enough digits for the smallest positive double
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed);
  out.append(digits.data(), end.ptr);
}

void write(std::string& out, const boost::json::object& object) {
  out += '{';
  const char* before = "";
  for (const auto& [key, value] : object) {
    out += before + boost::json::serialize(key) + ':';
    write(out, value);
    before = ",";
  }
  out += '}';
}

void write(std::string& out, const boost::json::array& array) {
  out += '[';
  const char* before = "";
  for (const boost::json::value& value : array) {
    out += before;
    write(out, value);
    before = ",";
  }
  out += ']';
}

void write(std::string& out, const boost::json::value& value) {
  if (const double* number = value.if_double()) return write(out, *number);
  if (const auto* object = value.if_object()) return write(out, *object);
  if (const auto* array = value.if_array()) return write(out, *array);
  out += boost::json::serialize(value);
}

}  // namespace

std::string text_of(const boost::json::value& value) {
  std::string out;
  write(out, value);
  return out;
}

}  // namespace c10dd::json
