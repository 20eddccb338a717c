// SPDX-License-Identifier: Apache-2.0
// Maps described structs to Boost.JSON.
#include "tests/json/json_wire.h"

#include <boost/describe/enum_to_string.hpp>
#include <boost/json.hpp>
#include <concepts>

#include "protocol/base64.h"
#include "protocol/fields.h"
#include "protocol/json_text.h"
#include "protocol/utf8.h"

namespace c10dd::json {
namespace {

namespace bj = boost::json;
using wire::Described;

template <class T>
concept DescribedEnum = boost::describe::has_describe_enumerators<T>::value;

bj::value write(const std::string& bytes) {
  if (is_utf8(bytes)) return bj::string(bytes);
  return bj::object{{"base64", base64_encode(bytes)}};
}
bj::value write(const Blob& bytes) { return write(bytes.str()); }
bj::value write(const SharedBytes& bytes) { return write(std::string(bytes.view())); }
bj::value write(Duration d) { return std::chrono::duration<double>(d).count(); }
bj::value write(bool b) { return b; }
bj::value write(const SessionId& id) { return bj::array{id.high, id.low}; }
bj::value write(const Stamp& s) { return bj::array{s.incarnation, s.epoch, s.revision}; }
bj::value write(Code code) { return bj::string(name_of(code)); }
bj::value write(MissingRank::Cause cause) { return static_cast<int>(cause); }
template <DescribedEnum T>
bj::value write(T value) {
  return boost::describe::enum_to_string(value, "invalid");
}
template <std::integral T>
bj::value write(T number) {
  return number;
}
bj::value write(const std::map<std::string, std::string>& map) {
  bj::object out;
  for (const auto& [key, value] : map) {
    out[is_utf8(key) ? key : printable(key, key.size())] = write(value);
  }
  return out;
}
template <class T>
bj::value write(const std::vector<T>& values);
template <Described T>
bj::value write(const T& value) {
  bj::object out;
  using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
  boost::mp11::mp_for_each<Fields>(
      [&](auto field) { out[field.name] = write(value.*field.pointer); });
  return out;
}
template <class T>
bj::value write(const std::vector<T>& values) {
  bj::array out;
  for (const T& value : values) out.push_back(write(value));
  return out;
}

}  // namespace

std::string encode_request(const Request& request) {
  return text_of(std::visit([](const auto& r) { return write(r); }, request));
}

std::string encode_reply_body(const Reply& reply) {
  if (!reply) return text_of(bj::object{{"error", write(reply.error())}});
  return text_of(std::visit([](const auto& b) { return write(b); }, *reply));
}

}  // namespace c10dd::json
