// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/sessions/reply_rows.h"

#include "daemon/core/row_key.h"
#include "protocol/fields.h"

namespace c10dd::core {

/// A StoredReply and a KeptReply that point to their bytes.
struct StoredReplyView {
  std::uint8_t op = 0;
  std::uint64_t fingerprint = 0;
  std::string_view body;
  Revision revision = 0;
};
BOOST_DESCRIBE_STRUCT(StoredReplyView, (), (op, fingerprint, body, revision))
struct KeptReplyView {
  SessionId session;
  std::uint64_t sequence = 0;
  StoredReplyView reply;
};
BOOST_DESCRIBE_STRUCT(KeptReplyView, (), (session, sequence, reply))

namespace {

constexpr std::size_t kRowBytes = 64 * 1024;  // a row of this size gets no more replies

Bytes key_of(Revision row) { return RowKey('r').number(row).take(); }

}  // namespace

void ReplyRows::add(const SessionId& session, std::uint64_t sequence, StoredReply& reply) {
  if (open_.name == 0) open_.name = reply.revision;
  reply.row = open_.name;
  ++open_.needed;
  wire::Writer(value_).put(
      KeptReplyView{session, sequence, {reply.op, reply.fingerprint, reply.body, reply.revision}});
  if (value_.size() >= kRowBytes) {
    if (first_closed_ == 0) first_closed_ = open_.name;
    close(closed_);
  }
}

/// Appends the open row to `rows`, if one of its replies is still needed.
void ReplyRows::close(Rows& rows) {
  const NeededRow row = std::exchange(open_, {});
  if (row.needed > 0) {
    rows.add(Row::Kind::put, key_of(row.name), value_);
    if (newest_.needed > 0) older_.emplace(newest_.name, newest_.needed);
    newest_ = row;
  }
  value_.clear();
  if (value_.capacity() > kRowBytes / 16) value_.shrink_to_fit();
}

void ReplyRows::append_reply_rows(Rows& rows) {
  if (first_closed_ != 0) rows.append(std::exchange(closed_, {}));
  first_closed_ = 0;
  if (open_.name != 0) close(rows);
}

void ReplyRows::release(Revision row, Rows& garbage) {
  if (row == open_.name) {  // has not been written yet
    --open_.needed;
    return;
  }
  if (row == newest_.name) {
    if (--newest_.needed > 0) return;
  } else {
    const auto at = older_.find(row);
    if (--at->second > 0) return;
    older_.erase(at);
  }
  const bool waits = first_closed_ != 0 && row >= first_closed_;
  (waits ? closed_ : garbage).add(Row::Kind::erase, key_of(row), {});
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
  if (!key.complete() || name == 0 || !reader.ok() || all.empty() ||
      all.front().reply.revision != name) {
    return failure(Code::malformed, "damaged reply row");
  }
  older_[name] = all.size();
  return all;
}

}  // namespace c10dd::core
