// SPDX-License-Identifier: Apache-2.0
// PlainValue: what a flight record is made of, whether it is a pickle or JSON. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace c10dd::ctl {

/// None, a boolean, an integer, a number, a text, a list or a dict. Has no cycles, and is at most
/// kDepth deep. Copies share texts, lists and dicts.
class PlainValue {
 public:
  using Items = std::vector<PlainValue>;

  static constexpr std::size_t kDepth = 64;
  /// How many values a value may have in it. One that is in two places counts twice.
  static constexpr std::size_t kValues = 16 * 1024 * 1024;

  PlainValue() = default;  ///< None
  explicit PlainValue(bool value) : value_(value) {}
  explicit PlainValue(std::int64_t value) : value_(value) {}
  explicit PlainValue(double value) : value_(value) {}
  explicit PlainValue(std::string text)
      : value_(std::make_shared<const std::string>(std::move(text))) {}
  static PlainValue list() { return PlainValue(std::make_shared<Container>()); }
  static PlainValue dict() { return PlainValue(std::make_shared<Container>(Container{true})); }

  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_list() const { return container() != nullptr && !container()->dict; }
  bool is_dict() const { return container() != nullptr && container()->dict; }
  /// These return null if the value is of another type. A text has any bytes.
  const bool* if_bool() const { return std::get_if<bool>(&value_); }
  const std::int64_t* if_integer() const { return std::get_if<std::int64_t>(&value_); }
  const double* if_double() const { return std::get_if<double>(&value_); }
  const std::string* if_text() const;

  /// Returns the items of a list, or the keys and values of a dict, which take turns; else nothing.
  std::span<const PlainValue> items() const;
  /// Returns what a dict has under this key, or null.
  const PlainValue* member(std::string_view key) const;

  enum class Added : std::uint8_t {
    done,
    too_deep,
    too_many,
    stored,  ///< the list or dict is in another one, or in itself, and so does not change any more
  };
  /// Adds items to a list or dict, and so to all copies of it. For a dict, keys and values take
  /// turns. If it fails, the value must not be used any more.
  Added add(Items items);

 private:
  struct Container {
    bool dict = false;
    bool stored = false;     // in another one
    std::size_t depth = 1;   // of lists and dicts in one another, with this one
    std::size_t values = 1;  // in it, with itself
    Items items = {};
  };

  explicit PlainValue(std::shared_ptr<Container> container) : value_(std::move(container)) {}
  Container* container() const {
    const auto* const one = std::get_if<std::shared_ptr<Container>>(&value_);
    return one == nullptr ? nullptr : one->get();
  }

  std::variant<std::monostate, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<Container>>
      value_;
};

}  // namespace c10dd::ctl
