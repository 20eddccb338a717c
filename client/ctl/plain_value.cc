// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/plain_value.h"

#include <algorithm>
#include <iterator>

namespace c10dd::ctl {

const std::string* PlainValue::if_text() const {
  const auto* const text = std::get_if<std::shared_ptr<const std::string>>(&value_);
  return text == nullptr ? nullptr : text->get();
}

std::span<const PlainValue> PlainValue::items() const {
  const Container* const one = container();
  return one == nullptr ? std::span<const PlainValue>() : std::span<const PlainValue>(one->items);
}

const PlainValue* PlainValue::member(std::string_view key) const {
  if (!is_dict()) return nullptr;
  const std::span<const PlainValue> all = items();
  for (std::size_t i = all.size(); i >= 2; i -= 2) {  // of two with one key, the later one counts
    const std::string* const name = all[i - 2].if_text();
    if (name != nullptr && *name == key) return &all[i - 1];
  }
  return nullptr;
}

PlainValue::Added PlainValue::add(Items items) {
  Container& into = *container();
  for (const PlainValue& item : items) {
    Container* const inner = item.container();
    into.values += inner == nullptr ? 1 : inner->values;
    if (into.values > kValues) return Added::too_many;
    if (inner == nullptr) continue;
    into.depth = std::max(into.depth, inner->depth + 1);
    if (into.depth > kDepth) return Added::too_deep;
    inner->stored = true;
  }
  if (into.stored) return Added::stored;
  if (into.items.empty()) {
    into.items = std::move(items);
  } else {
    std::ranges::move(items, std::back_inserter(into.items));
  }
  return Added::done;
}

}  // namespace c10dd::ctl
