// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_values.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <utility>

#include "client/ctl/pickle.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;

std::optional<PlainValue> plain_value_of(const json::value& from);

template <class Parts, class Append>
std::optional<PlainValue> container_of(PlainValue made, const Parts& parts, const Append& append) {
  PlainValue::Items items;
  for (const auto& part : parts) {
    if (!append(items, part)) return std::nullopt;
  }
  if (made.add(std::move(items)) != PlainValue::Added::done) return std::nullopt;
  return made;
}

/// Returns nothing if the value has too many parts.
std::optional<PlainValue> plain_value_of(const json::value& from) {
  const auto append = [](PlainValue::Items& to, const json::value& one) {
    auto value = plain_value_of(one);
    if (value) to.push_back(std::move(*value));
    return value.has_value();
  };
  if (const auto* const list = from.if_array()) {
    return container_of(PlainValue::list(), *list, append);
  }
  if (const auto* const object = from.if_object()) {
    return container_of(PlainValue::dict(), *object, [&](auto& to, const auto& pair) {
      to.emplace_back(std::string(pair.key()));
      return append(to, pair.value());
    });
  }
  if (from.is_bool()) return PlainValue(from.get_bool());
  if (from.is_int64()) return PlainValue(from.get_int64());
  if (from.is_number()) return PlainValue(from.to_number<double>());
  if (from.is_string()) return PlainValue(std::string(from.get_string()));
  return PlainValue();
}

Result<PlainValue> read_json(std::string_view bytes) {
  json::parse_options options;
  options.max_depth = PlainValue::kDepth;
  boost::system::error_code failed;
  const json::value parsed = json::parse(bytes, failed, {}, options);
  if (failed) {
    return failure(Code::invalid_argument, "the JSON is cut short or damaged: {}; copy it again",
                   failed.message());
  }
  if (auto value = plain_value_of(parsed)) return std::move(*value);
  return failure(Code::invalid_argument, "the JSON has more than {} values; write a shorter record",
                 PlainValue::kValues);
}

/// How operations are compared between ranks. The first that is a part of the name counts.
struct Comparison {
  enum class Side : std::uint8_t { inputs, outputs, types, nothing };

  std::string_view part;
  Side side;
  bool for_all;
};

constexpr Comparison kComparisons[] = {
    {"barrier", Comparison::Side::nothing, true},
    {"_v", Comparison::Side::types, true},  // of unequal sizes
    {"all_to_all", Comparison::Side::types, true},
    {"all_reduce", Comparison::Side::inputs, true},
    {"allreduce", Comparison::Side::inputs, true},
    {"reduce_scatter", Comparison::Side::outputs, true},
    {"REDUCE_SCATTER", Comparison::Side::outputs, true},
    {"all_gather", Comparison::Side::inputs, true},
    {"allgather", Comparison::Side::inputs, true},
    {"ALLGATHER", Comparison::Side::inputs, true},
    {"broadcast", Comparison::Side::outputs, false},
    {"gather", Comparison::Side::inputs, false},
    {"scatter", Comparison::Side::outputs, false},
    {"reduce", Comparison::Side::inputs, false},
    {"", Comparison::Side::nothing, false},
};

const Comparison& comparison_of(std::string_view operation) {
  return *std::ranges::find_if(kComparisons, [&](const Comparison& one) {
    return operation.find(one.part) != std::string_view::npos;
  });
}

/// The names of PyTorch, and those of c10dd.
constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"Float", "float32"}, {"Double", "float64"}, {"Half", "float16"}, {"BFloat16", "bfloat16"},
    {"Long", "int64"},    {"Int", "int32"},      {"Short", "int16"},  {"Char", "int8"},
    {"Byte", "uint8"},    {"Bool", "bool"},
};

std::string_view type_name(std::string_view of_torch) {
  const auto* const found =
      std::ranges::find(kTypes, of_torch, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kTypes) ? of_torch : found->second;
}

std::string types_in(const PlainValue* list) {
  std::vector<std::string_view> types;
  for (const PlainValue& one : list == nullptr ? std::span<const PlainValue>() : list->items()) {
    const std::string* const type = one.if_text();
    if (type != nullptr && std::ranges::find(types, *type) == types.end()) types.push_back(*type);
    if (types.size() == std::size(kTypes)) break;
  }
  std::string text;
  for (const std::string_view type : types) text.append(" ").append(type_name(type));
  return printable(text, limits::kOperationNameBytes);
}

/// Returns how many elements tensors have; nothing if it is not known.
std::optional<std::uint64_t> elements_in(const PlainValue* sizes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (sizes == nullptr || !sizes->is_list()) return std::nullopt;
  std::uint64_t sum = 0;
  for (const PlainValue& tensor : sizes->items()) {
    std::uint64_t product = 1;
    for (const PlainValue& size : tensor.items()) {
      const std::int64_t* const value = size.if_integer();
      if (value == nullptr || *value < 0) return std::nullopt;
      const auto factor = static_cast<std::uint64_t>(*value);
      if (factor != 0 && product > kMost / factor) return std::nullopt;
      product *= factor;
    }
    if (product > kMost - sum) return std::nullopt;
    sum += product;
  }
  return sum;
}

}  // namespace

bool may_be_flight_record(std::string_view first_bytes) {
  if (first_bytes.starts_with('\x80'))
    first_bytes.remove_prefix(std::min<std::size_t>(2, first_bytes.size()));
  if (first_bytes.starts_with('\x95'))
    first_bytes.remove_prefix(std::min<std::size_t>(9, first_bytes.size()));
  return first_bytes.starts_with('}') || first_bytes.starts_with("(d") ||
         first_bytes.starts_with('{');
}

Result<PlainValue> read_plain_value(std::string_view bytes) {
  return bytes.starts_with('{') ? read_json(bytes) : read_pickle(bytes);
}

const std::string* text_in(const PlainValue& of, std::string_view name) {
  const PlainValue* const found = of.member(name);
  return found == nullptr ? nullptr : found->if_text();
}

std::int64_t integer_in(const PlainValue& of, std::string_view name, std::int64_t otherwise) {
  const PlainValue* const found = of.member(name);
  const std::int64_t* const value = found == nullptr ? nullptr : found->if_integer();
  return value == nullptr ? otherwise : *value;
}

bool boolean_in(const PlainValue& of, std::string_view name) {
  const PlainValue* const found = of.member(name);
  const bool* const value = found == nullptr ? nullptr : found->if_bool();
  return value != nullptr && *value;
}

std::optional<std::vector<std::uint32_t>> ranks_in(const PlainValue& value) {
  std::vector<std::uint32_t> ranks;
  const auto add = [&](std::optional<std::int64_t> rank) {
    if (!rank || *rank < 0 || *rank >= limits::kWorldSize) return false;
    ranks.push_back(static_cast<std::uint32_t>(*rank));
    return true;
  };
  for (const PlainValue& one : value.items()) {
    const std::int64_t* const rank = one.if_integer();
    if (rank == nullptr || !add(*rank)) return std::nullopt;
  }
  if (const std::string* const text = value.if_text()) {
    std::string_view left = *text;
    if (!left.starts_with('[') || !left.ends_with(']')) return std::nullopt;
    left = left.substr(1, left.size() - 2);
    while (!left.empty()) {
      const std::size_t comma = std::min(left.find(','), left.size());
      if (!add(parse_number<std::int64_t>(left.substr(0, comma)))) return std::nullopt;
      left.remove_prefix(std::min(comma + 1, left.size()));
      left.remove_prefix(std::min(left.find_first_not_of(' '), left.size()));
    }
  } else if (!value.is_list()) {
    return std::nullopt;
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string_view operation_in(std::string_view profiling_name) {
  const std::size_t colon = profiling_name.find(':');
  return colon == std::string_view::npos ? profiling_name : profiling_name.substr(colon + 1);
}

FlightCall called(std::string_view operation, const PlainValue& entry) {
  using Side = Comparison::Side;
  const Comparison& compared = comparison_of(operation);
  const std::string name = printable(operation, limits::kOperationNameBytes);
  FlightCall call{name, name, compared.for_all};
  if (const std::string* const arguments = text_in(entry, "arguments")) {  // c10dd knows them all
    if (!arguments->empty()) call.text += " " + printable(*arguments, limits::kOperationNameBytes);
    return call;
  }
  if (compared.side == Side::nothing) return call;
  const bool outputs = compared.side == Side::outputs;
  const std::string types = types_in(entry.member(outputs ? "output_dtypes" : "input_dtypes"));
  const auto elements = elements_in(entry.member(outputs ? "output_sizes" : "input_sizes"));
  const bool sized = compared.side != Side::types && elements;
  if (!sized && types.empty()) return call;
  call.text += " of";
  if (sized) call.text += format(" {}", *elements);
  call.text += types;
  return call;
}

std::optional<FlightMessage> message_in(std::string_view operation) {
  const bool receives = operation.starts_with("recv ");
  if (!receives && !operation.starts_with("send ")) return std::nullopt;
  const std::string_view arrow = receives ? "<-" : "->";
  const std::size_t at = operation.find(arrow);
  if (at == std::string_view::npos) return std::nullopt;
  const auto peer = parse_number<std::uint32_t>(operation.substr(at + arrow.size()));
  if (!peer) return std::nullopt;
  FlightMessage message;
  message.receives = receives;
  message.peer = *peer;
  return message;
}

std::string line_in(const PlainValue& entry) {
  const PlainValue* const frames = entry.member("frames");
  for (const PlainValue& frame :
       frames == nullptr ? std::span<const PlainValue>() : frames->items()) {
    const std::string* const file = text_in(frame, "filename");
    if (file == nullptr || file->find("/torch/") != std::string::npos) continue;
    const std::string name = printable(file->substr(file->rfind('/') + 1), limits::kNameShown);
    return format("{}:{}", name, integer_in(frame, "line", 0));
  }
  return {};
}

}  // namespace c10dd::ctl
