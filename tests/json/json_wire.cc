// SPDX-License-Identifier: Apache-2.0
// Maps described structs to Boost.JSON; the errors name the field.
#include "tests/json/json_wire.h"

#include <algorithm>
#include <boost/describe/enum_from_string.hpp>
#include <boost/describe/enum_to_string.hpp>
#include <boost/json.hpp>
#include <cmath>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/utf8.h"
#include "tests/json/base64.h"

namespace c10dd::json {
namespace {

namespace bj = boost::json;
using wire::Described;

template <class T>
concept DescribedEnum = boost::describe::has_describe_enumerators<T>::value;

constexpr double kSecondsMax = 4e9;     // above every limit, and exact to the microsecond
constexpr std::size_t kNameShown = 64;  // bytes of an unknown name that an error shows

bj::value write(const std::string& bytes) {
  if (is_utf8(bytes)) return bj::string(bytes);
  return bj::object{{"base64", base64_encode(bytes)}};
}
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

bool read(const bj::value& in, std::string& bytes) {
  if (const bj::string* text = in.if_string()) {
    bytes.assign(text->data(), text->size());
    return true;
  }
  const bj::object* object = in.if_object();
  const bj::value* encoded = object != nullptr ? object->if_contains("base64") : nullptr;
  if (encoded == nullptr || !encoded->is_string() || object->size() != 1) return false;
  std::optional<Bytes> decoded = base64_decode(std::string_view(encoded->get_string()));
  if (decoded) bytes = std::move(*decoded);
  return decoded.has_value();
}
bool read(const bj::value& in, Duration& d) {
  bj::error_code failed;
  const double seconds = in.to_number<double>(failed);
  if (failed || !std::isfinite(seconds) || std::abs(seconds) > 9e9) return false;
  const double micros = std::clamp(seconds, -kSecondsMax, kSecondsMax) * 1e6;
  d = std::chrono::microseconds(std::llround(micros));
  return true;
}
template <std::integral T>
bool read(const bj::value& in, T& number) {
  bj::error_code failed;
  number = in.to_number<T>(failed);
  return !failed;
}
bool read(const bj::value& in, bool& value) {
  if (!in.is_bool()) return false;
  value = in.get_bool();
  return true;
}
template <DescribedEnum T>
bool read(const bj::value& in, T& value) {
  const bj::string* text = in.if_string();
  return text != nullptr && boost::describe::enum_from_string(text->c_str(), value);
}
bool read(const bj::value& in, SessionId& id) {
  const bj::array* a = in.if_array();
  return a != nullptr && a->size() == 2 && read((*a)[0], id.high) && read((*a)[1], id.low);
}
bool read(const bj::value& in, Stamp& s) {
  const bj::array* a = in.if_array();
  return a != nullptr && a->size() == 3 && read((*a)[0], s.incarnation) && read((*a)[1], s.epoch) &&
         read((*a)[2], s.revision);
}
bool read(const bj::value& in, std::map<std::string, std::string>& map) {
  const bj::object* object = in.if_object();
  if (object == nullptr) return false;
  for (const auto& [key, value] : *object) {
    if (!read(value, map[std::string(key)])) return false;
  }
  return true;
}
template <class T>
bool read(const bj::value& in, std::vector<T>& values);
template <Described T>
bool read(const bj::value& in, T& value);
/// Reads the fields of an object. Returns what is wrong with the first unknown or ill-typed field;
/// empty on success.
template <Described T>
std::string read_fields(const bj::object& in, T& value) {
  using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
  for (const bj::key_value_pair& item : in) {
    const std::string_view name = item.key();
    bool known = false;
    bool good = false;
    boost::mp11::mp_for_each<Fields>([&](auto field) {
      if (name != field.name) return;
      known = true;
      good = read(item.value(), value.*field.pointer);
    });
    if (!known) return format("unknown field \"{}\"", printable(name, kNameShown));
    if (!good) return format("field \"{}\" has the wrong type or range", name);
  }
  return {};
}
template <Described T>
bool read(const bj::value& in, T& value) {
  return in.is_object() && read_fields(in.get_object(), value).empty();
}
template <class T>
bool read(const bj::value& in, std::vector<T>& values) {
  const bj::array* array = in.if_array();
  if (array == nullptr) return false;
  for (const bj::value& item : *array) {
    if (!read(item, values.emplace_back())) return false;
  }
  return true;
}

}  // namespace

std::string encode_request(const Request& request) {
  return text_of(std::visit([](const auto& r) { return write(r); }, request));
}

std::string encode_reply_body(const Reply& reply) {
  if (!reply) return text_of(bj::object{{"error", write(reply.error())}});
  return text_of(std::visit([](const auto& b) { return write(b); }, *reply));
}

Result<Request> decode_request(std::string_view op, std::string_view text) {
  bj::error_code failed;
  const bj::value parsed =
      bj::parse(bj::string_view(text.data(), text.size()), failed, {}, {.max_depth = 32});
  if (failed || !parsed.is_object()) {
    return failure(Code::invalid_argument,
                   "body: " + (failed ? failed.message() : "a JSON object is expected"));
  }
  Result<Request> result =
      failure(Code::unknown_op, "unknown operation: \"{}\"", printable(op, kNameShown));
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    if (Op::op.name != op) return;
    Op request;
    const std::string wrong = read_fields(parsed.get_object(), request);
    if (wrong.empty()) {
      result = Request(std::move(request));
    } else {
      result = failure(Code::invalid_argument, "{}: {}", op, wrong);
    }
  });
  return result;
}

}  // namespace c10dd::json
