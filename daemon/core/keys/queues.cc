// SPDX-License-Identifier: Apache-2.0
// The row of an item has the key: 'q', queue name, revision, index. The class Sessions stores which
// items are delivered.
#include "daemon/core/keys/queues.h"

#include "daemon/core/keys/key_space.h"
#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/format.h"

namespace c10dd::core {

struct ItemRow {
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(ItemRow, (), (value))

namespace {

Bytes item_key(const Bytes& queue, const ItemId& item) {
  return RowKey('q').text(queue).number(item.revision).number(item.index).take();
}

}  // namespace

Result<void> Queues::check_push(std::string_view queue, std::size_t value_bytes,
                                std::size_t more_items, std::size_t more_bytes) const {
  if (Result<void> good = check_key(queue); !good) return good;
  if (value_bytes > limits::kValueBytes) {
    return failure(Code::too_large, "item too large: {} bytes, limit {}", value_bytes,
                   limits::kValueBytes);
  }
  const std::size_t items = items_ + more_items + 1;
  if (items > quotas_.queue_items) {
    return failure(Code::quota_exceeded,
                   "too many items in the job's queues: {} with this one, limit {}", items,
                   quotas_.queue_items);
  }
  const std::size_t bytes = bytes_ + more_bytes + queue.size() + value_bytes;
  if (bytes > quotas_.queue_bytes) {
    return failure(Code::quota_exceeded,
                   "the job's queues are full: {} bytes with this item, limit {}", bytes,
                   quotas_.queue_bytes);
  }
  return {};
}

Row Queues::push(const Bytes& queue, Bytes value, Revision revision) {
  last_ = last_.revision == revision ? ItemId{revision, last_.index + 1} : ItemId{revision, 0};
  Row row{Row::Kind::put, item_key(queue, last_), wire::encode(ItemRow{value})};
  Queue& q = queues_[queue];
  ++items_;
  bytes_ += queue.size() + value.size();
  q.items.emplace(last_, std::move(value));
  q.free.insert(last_);
  changed_ = revision;
  return row;
}

std::optional<ItemId> Queues::oldest(std::string_view queue) const {
  const auto it = queues_.find(queue);
  if (it == queues_.end() || it->second.free.empty()) return std::nullopt;
  return *it->second.free.begin();
}

void Queues::deliver(const Bytes& queue, const ItemId& item, Revision revision) {
  if (planted(Planted::delivery_leaves_item)) return;
  const auto it = queues_.find(queue);
  C10DD_ASSERT(it != queues_.end() && it->second.free.erase(item) == 1);
  changed_ = std::max(changed_, revision);
}

void Queues::release(const Bytes& queue, const ItemId& item, Revision revision) {
  const auto it = queues_.find(queue);
  C10DD_ASSERT(it != queues_.end() && it->second.items.contains(item));
  it->second.free.insert(item);
  changed_ = std::max(changed_, revision);
}

ItemId Queues::reserve(std::string_view queue) {
  Queue& q = queues_.find(queue)->second;
  const ItemId item = *q.free.begin();
  if (!planted(Planted::kept_item_taken)) q.free.erase(q.free.begin());
  ++q.reserved;
  ++reserved_;
  return item;
}

void Queues::unreserve(std::string_view queue, const ItemId& item) {
  Queue& q = queues_.find(queue)->second;
  C10DD_ASSERT(q.items.contains(item) && q.reserved > 0);
  q.free.insert(item);
  --q.reserved;
  --reserved_;
}

Row Queues::erase(const Bytes& queue, const ItemId& item) {
  const auto it = queues_.find(queue);
  C10DD_ASSERT(it != queues_.end());
  const auto found = it->second.items.find(item);
  C10DD_ASSERT(found != it->second.items.end());
  --items_;
  bytes_ -= queue.size() + found->second.size();
  it->second.items.erase(found);
  it->second.free.erase(item);
  Row row{Row::Kind::erase, item_key(queue, item), {}};
  if (it->second.items.empty()) queues_.erase(it);
  return row;
}

const Bytes& Queues::value(const Bytes& queue, const ItemId& item) const {
  return queues_.find(queue)->second.items.find(item)->second;
}

bool Queues::is_free(std::string_view queue, const ItemId& item) const {
  const auto it = queues_.find(queue);
  return it != queues_.end() && it->second.free.contains(item);
}

std::size_t Queues::length(std::string_view queue) const {
  const auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : it->second.free.size() + it->second.reserved;
}

Result<void> Queues::restore(const Row& row) {
  RowKeyReader key(row.key);
  const Bytes queue(key.text());
  const std::uint64_t revision = key.number();
  const ItemId item{revision, key.number()};
  Result<ItemRow> value = wire::decode<ItemRow>(row.value);
  if (!key.complete() || queue.empty() || !value) {
    return failure(Code::malformed, "damaged queue row");
  }
  Queue& q = queues_[queue];
  ++items_;
  bytes_ += queue.size() + value->value.size();
  q.items.emplace(item, std::move(value->value));
  q.free.insert(item);
  changed_ = std::max(changed_, revision);
  return {};
}

AuditResult Queues::audit() const {
  std::size_t items = 0;
  std::size_t bytes = 0;
  for (const auto& [name, queue] : queues_) {
    items += queue.items.size();
    for (const auto& [id, value] : queue.items) bytes += name.size() + value.size();
  }
  std::size_t reserved = 0;
  for (const auto& [name, queue] : queues_) reserved += queue.reserved;
  return first_difference({differ("reserved items", reserved_, reserved),
                           differ("items", items_, items),
                           differ("bytes of items", bytes_, bytes)});
}

}  // namespace c10dd::core
