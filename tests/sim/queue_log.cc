// SPDX-License-Identifier: Apache-2.0
// Rows of items and of claims to lengths.
#include "tests/sim/queue_log.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "daemon/core/row_key.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/fields.h"

namespace c10dd::sim {

QueueLog::QueueLog(const std::vector<Step>& log) {
  struct Item {
    bool is_there = false;
    unsigned claims = 0;  // while one takes the place of another, two

    std::size_t free() const { return is_there && claims == 0 ? 1 : 0; }
  };
  using Name = std::tuple<Bytes, std::uint64_t, std::uint64_t>;  // queue, revision, index
  std::map<Name, Item> items;
  std::map<Bytes, Name> claims;  // by their rows
  std::map<Bytes, std::size_t> free;
  for (const Step& step : log) {
    std::set<Bytes> touched;
    const auto change = [&](const Name& name, auto how) {
      Item& item = items[name];
      std::size_t& count = free[std::get<0>(name)];
      count -= item.free();
      how(item);
      count += item.free();
      touched.insert(std::get<0>(name));
      if (!item.is_there && item.claims == 0) items.erase(name);
    };
    for (const Row& row : step.rows) {
      const bool put = row.kind == Row::Kind::put;
      if (row.key.starts_with('q')) {
        core::RowKeyReader key(row.key);
        const Bytes queue(key.text());
        const std::uint64_t revision = key.number();
        change({queue, revision, key.number()}, [&](Item& item) { item.is_there = put; });
      } else if (row.key.starts_with('c')) {
        if (const auto old = claims.extract(row.key)) {
          change(old.mapped(), [](Item& item) { --item.claims; });
        }
        const auto delivery = wire::decode<core::Delivery>(put ? row.value : Bytes());
        if (!delivery) continue;
        const Name name{delivery->queue, delivery->item_revision, delivery->item_index};
        claims[row.key] = name;
        change(name, [](Item& item) { ++item.claims; });
      }
    }
    for (const Bytes& queue : touched) lengths_[queue].emplace_back(step.revision, free[queue]);
  }
}

std::size_t QueueLog::free(const Bytes& queue, Revision revision) const {
  const auto it = lengths_.find(queue);
  if (it == lengths_.end()) return 0;
  const auto after =
      std::ranges::upper_bound(it->second, revision, {}, &std::pair<Revision, std::size_t>::first);
  return after == it->second.begin() ? 0 : std::prev(after)->second;
}

}  // namespace c10dd::sim
