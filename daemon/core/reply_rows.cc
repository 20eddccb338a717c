// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reply_rows.h"

#include "daemon/core/row_key.h"
#include "protocol/fields.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kRowBytes = 64 * 1024;  // a row of this size gets no more replies

Bytes key_of(Revision row) { return RowKey('r').number(row).take(); }

}  // namespace

void ReplyRows::add(KeptReply& kept) {
  if (open_ == 0) open_ = kept.reply.revision;
  kept.reply.row = open_;
  ++needed_[open_];
  wire::Writer(value_).put(kept);
  if (value_.size() >= kRowBytes) close(closed_);
}

/// Appends the open row to `rows`, if one of its replies is still needed.
void ReplyRows::close(Rows& rows) {
  const Revision row = std::exchange(open_, 0);
  if (needed_.contains(row)) rows.add(Row::Kind::put, key_of(row), value_);
  value_.clear();
  if (value_.capacity() > kRowBytes / 16) value_.shrink_to_fit();
}

void ReplyRows::seal(Rows& rows) {
  rows.append(std::exchange(closed_, {}));
  if (open_ != 0) close(rows);
}

std::optional<Row> ReplyRows::release(Revision row) {
  const auto at = needed_.find(row);
  if (--at->second > 0) return std::nullopt;
  needed_.erase(at);
  if (row == open_) return std::nullopt;  // the open row has not been written yet
  return Row{Row::Kind::erase, key_of(row), {}};
}

Result<std::vector<KeptReply>> ReplyRows::restore(const Row& row) {
  RowKeyReader key(row.key);
  const Revision name = key.number();
  std::vector<KeptReply> all;
  wire::Reader reader(row.value);
  while (reader.ok() && !reader.at_end()) {
    reader.get(all.emplace_back());
    all.back().reply.row = name;
  }
  if (!key.complete() || !reader.ok() || all.empty() || all.front().reply.revision != name) {
    return failure(Code::malformed, "damaged reply row");
  }
  needed_[name] = all.size();
  return all;
}

}  // namespace c10dd::core
