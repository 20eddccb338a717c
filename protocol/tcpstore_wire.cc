// SPDX-License-Identifier: Apache-2.0
// Each operation has an entry in kForms: its codes, its fields and the form of its reply. All
// functions read this table.
#include "protocol/tcpstore_wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::tcpstore {
namespace {

constexpr std::size_t kLength = sizeof(std::uint64_t);  // of the length before a text or a list
constexpr std::size_t kMagicEnd = 1 + sizeof kMagic;    // of a whole message `validate`

enum class Field : std::uint8_t { none, word, number, key, value, keys, pairs };

enum class ReplyForm : std::uint8_t { none, byte, word, number, text, texts, keys, popped };

constexpr std::uint8_t kNoCode = 255;

struct Form {
  Query query;
  std::string_view name;
  std::uint8_t l0, l1, v;  // codes
  std::array<Field, 3> fields;
  ReplyForm reply;
};

constexpr std::array<Form, kQueries> kForms{{
    {Query::validate, "validate", kNoCode, kNoCode, 0, {Field::word}, ReplyForm::none},
    {Query::set, "set", 0, 0, 1, {Field::key, Field::value}, ReplyForm::none},
    {Query::compare_set,
     "compare_set",
     1,
     1,
     2,
     {Field::key, Field::value, Field::value},
     ReplyForm::text},
    {Query::get, "get", 2, 2, 3, {Field::key}, ReplyForm::text},
    {Query::add, "add", 3, 3, 4, {Field::key, Field::number}, ReplyForm::number},
    {Query::check, "check", 4, 4, 5, {Field::keys}, ReplyForm::byte},
    {Query::wait, "wait", 5, 5, 6, {Field::keys}, ReplyForm::byte},
    {Query::count_keys, "count_keys", 6, 6, 7, {}, ReplyForm::number},
    {Query::watch_key, "watch_key", 7, kNoCode, kNoCode, {Field::key}, ReplyForm::byte},
    {Query::remove, "remove", 8, 7, 8, {Field::key}, ReplyForm::number},
    {Query::append, "append", kNoCode, 8, 9, {Field::key, Field::value}, ReplyForm::none},
    {Query::multi_get, "multi_get", kNoCode, 9, 10, {Field::keys}, ReplyForm::texts},
    {Query::multi_set, "multi_set", kNoCode, 10, 11, {Field::pairs}, ReplyForm::none},
    {Query::cancel_wait, "cancel_wait", kNoCode, 11, 12, {}, ReplyForm::byte},
    {Query::ping, "ping", kNoCode, kNoCode, 13, {Field::word}, ReplyForm::word},
    {Query::queue_push,
     "queue_push",
     kNoCode,
     kNoCode,
     14,
     {Field::key, Field::value},
     ReplyForm::none},
    {Query::queue_pop, "queue_pop", kNoCode, kNoCode, 15, {Field::key}, ReplyForm::popped},
    {Query::queue_length, "queue_length", kNoCode, kNoCode, 16, {Field::key}, ReplyForm::number},
    {Query::list_keys, "list_keys", kNoCode, kNoCode, 17, {}, ReplyForm::keys},
    {Query::barrier, "barrier", kNoCode, kNoCode, 18, {Field::key, Field::number}, ReplyForm::byte},
}};

constexpr const Form& form_of(Query query) { return kForms[static_cast<std::size_t>(query)]; }

static_assert(
    [] {
      for (std::size_t i = 0; i < kQueries; ++i) {
        if (static_cast<std::size_t>(kForms[i].query) != i) return false;
      }
      return true;
    }(),
    "kForms is indexed by operation");

using Codes = std::array<const Form*, 32>;

constexpr Codes codes(std::uint8_t Form::*code) {
  Codes table{};
  for (const Form& form : kForms) {
    if (form.*code != kNoCode) table[form.*code] = &form;
  }
  return table;
}
constexpr Codes kOfL0 = codes(&Form::l0);
constexpr Codes kOfL1 = codes(&Form::l1);
constexpr Codes kOfV = codes(&Form::v);

const Form* find(const Codes& table, std::uint8_t code) {
  return code < table.size() ? table[code] : nullptr;
}

bool same_meaning(std::uint8_t code) { return find(kOfL0, code) == find(kOfL1, code); }

template <class T>
T load(std::string_view in, std::size_t at) {
  T value;
  std::memcpy(&value, in.data() + at, sizeof value);
  return value;
}

/// Reads fields that are known to be there.
class Fields {
 public:
  explicit Fields(std::string_view in) : in_(in) {}

  template <class T>
  T number() {
    const T value = load<T>(in_, at_);
    at_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const auto length = number<std::uint64_t>();
    const std::string_view text = in_.substr(at_, length);
    at_ += length;
    return text;
  }

 private:
  std::string_view in_;
  std::size_t at_ = 1;
};

}  // namespace

std::string_view name_of(Query query) { return form_of(query).name; }

std::optional<std::uint8_t> code_of(Query query, Dialect dialect) {
  const Form& form = form_of(query);
  std::uint8_t code = kNoCode;
  if (dialect == Dialect::l0) code = form.l0;
  if (dialect == Dialect::l1) code = form.l1;
  if (dialect == Dialect::v) code = form.v;
  return code == kNoCode ? std::nullopt : std::optional(code);
}

// ---- messages ----------------------------------------------------------------------------------

Failure MessageCutter::too_large(std::string_view what, std::uint64_t value, std::string_view unit,
                                 std::uint64_t limit) const {
  return failure(Code::too_large, "{}: the {} has {} {}, limit {}", name_of(query_), what, value,
                 unit, limit);
}

Result<bool> MessageCutter::cut(std::string_view in) {
  if (std::exchange(whole_, false)) {
    first_ = begun_ = settled_ = false;
    at_ = field_ = left_ = key_end_ = 0;
  }
  C10DD_ASSERT(in.size() >= at_);
  ambiguous_ = false;
  Result<bool> more = true;
  if (!begun_) more = begin(in);
  if (more && *more) more = read_fields(in);
  if (!more || !*more) return more;
  needed_ = 1;
  return whole_ = true;
}

/// Returns true if `in` has so many bytes after those that were read.
bool MessageCutter::has(std::string_view in, std::size_t bytes) {
  if (in.size() - at_ >= bytes) return true;
  needed_ = at_ + bytes;
  return false;
}

/// Finds out which operation the message has. Returns false if more bytes are needed.
Result<bool> MessageCutter::begin(std::string_view in) {
  if (!has(in, 1)) return false;
  const auto code = static_cast<std::uint8_t>(in.front());
  if (dialect_ == Dialect::unknown) {
    // A `set` of the older dialects also begins with 0, and then has a length of 8 bytes.
    if (code == 0 && !has(in, kMagicEnd)) return false;
    const bool validates = code == 0 && load<std::uint32_t>(in, 1) == kMagic;
    dialect_ = validates ? Dialect::v : Dialect::legacy;
    if (!validates && legacy_ != LegacyClients::detect) {
      dialect_ = legacy_ == LegacyClients::l0 ? Dialect::l0 : Dialect::l1;
    }
  }
  if (dialect_ == Dialect::legacy) return begin_legacy(code);
  const Codes& table = dialect_ == Dialect::v ? kOfV : dialect_ == Dialect::l0 ? kOfL0 : kOfL1;
  const Form* const form = find(table, code);
  if (form == nullptr) {
    return failure(Code::unknown_op, "unknown operation: code {}", code);
  }
  query_ = form->query;
  at_ = 1;
  return begun_ = true;
}

/// Recognises the dialect by the code, if the code has not the same meaning in both.
Result<bool> MessageCutter::begin_legacy(std::uint8_t code) {
  if (same_meaning(code) && find(kOfL0, code) == nullptr) {
    return failure(Code::unknown_op, "unknown operation: code {}", code);
  }
  const bool is_remove_or_append = code == form_of(Query::remove).l0;
  if (!same_meaning(code) && !is_remove_or_append) {
    // A client of l0 uses watch_key on a connection of its own only.
    const bool watches = code == form_of(Query::watch_key).l0 && first_;
    dialect_ = watches ? Dialect::l0 : Dialect::l1;
  }
  query_ = find(dialect_ == Dialect::l1 ? kOfL1 : kOfL0, code)->query;
  at_ = 1;
  return begun_ = true;
}

void MessageCutter::settle_ambiguous() { settled_ = true; }

Result<bool> MessageCutter::read_fields(std::string_view in) {
  while (true) {
    if (dialect_ == Dialect::legacy && query_ == Query::remove && field_ == 1) {
      if (settled_) {
        dialect_ = Dialect::l0;
      } else if (in.size() == at_) {
        ambiguous_ = true;
        needed_ = at_ + 1;
        return false;
      } else {
        dialect_ = Dialect::l1;
        query_ = Query::append;
      }
    }
    const auto& fields = form_of(query_).fields;
    const Field field = field_ < fields.size() ? fields[field_] : Field::none;
    if (field == Field::none) return true;
    if (left_ > 0) {
      const bool is_key = field == Field::keys || left_ % 2 == 0;
      const Result<bool> read = read_text(in, is_key);
      if (!read || !*read) return read;
      if (--left_ == 0) ++field_;
      continue;
    }
    if (field == Field::key || field == Field::value) {
      const Result<bool> read = read_text(in, field == Field::key);
      if (!read || !*read) return read;
    } else {
      const std::size_t size = field == Field::word ? sizeof(std::uint32_t) : kLength;
      if (!has(in, size)) return false;
      if (query_ == Query::validate && load<std::uint32_t>(in, at_) != kMagic) {
        return failure(Code::malformed, "validate: the magic number is {:#010x}, expected {:#010x}",
                       load<std::uint32_t>(in, at_), kMagic);
      }
      if (field == Field::keys || field == Field::pairs) {
        const auto count = load<std::uint64_t>(in, at_);
        if (count > limits::kKeysPerRequest) {
          return too_large("message", count, "keys", limits::kKeysPerRequest);
        }
        left_ = field == Field::pairs ? 2 * count : count;
      }
      at_ += size;
      if (left_ > 0) continue;
    }
    ++field_;
  }
}

/// Reads a length and a text. Returns false if more bytes are needed.
Result<bool> MessageCutter::read_text(std::string_view in, bool is_key) {
  if (!has(in, kLength)) return false;
  const auto length = load<std::uint64_t>(in, at_);
  const std::size_t limit = is_key ? limits::kKeyBytes : limits::kValueBytes;
  if (length > limit) return too_large(is_key ? "key" : "value", length, "bytes", limit);
  const std::size_t end = at_ + kLength + length;
  if (end > limits::kTcpStoreMessageBytes) {
    return too_large("message", end, "bytes", limits::kTcpStoreMessageBytes);
  }
  if (!has(in, kLength + length)) return false;
  at_ = end;
  if (key_end_ == 0) key_end_ = end;
  return true;
}

std::optional<MessageHead> MessageCutter::head(std::string_view in) const {
  if (!begun_) return std::nullopt;
  const Field first = form_of(query_).fields.front();
  const bool is_list = first == Field::keys || first == Field::pairs;
  if (is_list || first == Field::key) {
    const std::size_t begin = 1 + kLength + (is_list ? kLength : 0);
    if (key_end_ != 0) {
      MessageHead head{query_, in.substr(begin, key_end_ - begin)};
      if (whole_ && query_ == Query::set) head.value_bytes = at_ - key_end_ - kLength;
      if (whole_ && query_ == Query::multi_set) {
        Message all = decode(in);
        head.keys = std::move(all.keys);
        for (const std::string_view value : all.values) head.sizes.push_back(value.size());
      }
      return head;
    }
    if (!whole_) return std::nullopt;  // a whole message without a first key has an empty list
  }
  return MessageHead{query_, {}};
}

Message MessageCutter::decode(std::string_view in) const {
  C10DD_ASSERT(whole_);
  Fields fields(in);
  Message message;
  message.query = query_;
  for (const Field field : form_of(query_).fields) {
    if (field == Field::word) message.number = fields.number<std::uint32_t>();
    if (field == Field::number) message.number = fields.number<std::int64_t>();
    if (field == Field::key) message.key = fields.text();
    if (field == Field::value) {
      message.expected = message.value;
      message.value = fields.text();
    }
    if (field != Field::keys && field != Field::pairs) continue;
    auto left = fields.number<std::uint64_t>();
    message.keys.reserve(left);
    for (; left > 0; --left) {
      message.keys.push_back(fields.text());
      if (field == Field::pairs) message.values.push_back(fields.text());
    }
  }
  return message;
}

void encode_message(Bytes& out, Dialect dialect, const Message& message) {
  const std::optional<std::uint8_t> code = code_of(message.query, dialect);
  C10DD_ASSERT(code.has_value());
  put_byte(out, *code);
  bool expected = message.query == Query::compare_set;
  for (const Field field : form_of(message.query).fields) {
    if (field == Field::word) {
      const bool validates = message.query == Query::validate;
      put_word(out, validates ? kMagic : static_cast<std::uint32_t>(message.number));
    }
    if (field == Field::number) put_number(out, message.number);
    if (field == Field::key) put_text(out, message.key);
    if (field == Field::value) {
      put_text(out, std::exchange(expected, false) ? message.expected : message.value);
    }
    if (field != Field::keys && field != Field::pairs) continue;
    put_number(out, static_cast<std::int64_t>(message.keys.size()));
    for (std::size_t i = 0; i < message.keys.size(); ++i) {
      put_text(out, message.keys[i]);
      if (field == Field::pairs) put_text(out, message.values[i]);
    }
  }
}

// ---- replies -----------------------------------------------------------------------------------

namespace {

template <class T>
void put(Bytes& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

/// Reads the fields of a reply, as long as they are there.
class ReplyFields {
 public:
  explicit ReplyFields(std::string_view in) : in_(in) {}

  bool complete() const { return complete_; }
  std::size_t size() const { return at_; }

  template <class T>
  T number() {
    complete_ = complete_ && in_.size() - at_ >= sizeof(T);
    if (!complete_) return {};
    const T value = load<T>(in_, at_);
    at_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const auto length = number<std::uint64_t>();
    if (length > limits::kForeignReplyBytes || at_ + length > limits::kForeignReplyBytes) {
      excess_ = length;
    }
    complete_ = complete_ && in_.size() - at_ >= length;
    if (!complete_) return {};
    at_ += length;
    return in_.substr(at_ - length, length);
  }
  /// Returns the length of a text that makes the reply too large; 0: none does.
  std::uint64_t excess() const { return excess_; }

 private:
  std::string_view in_;
  std::size_t at_ = 0;
  std::uint64_t excess_ = 0;
  bool complete_ = true;
};

/// Returns the greatest number that a server replies to an operation. The least one is 0, but for
/// those with all numbers.
std::int64_t greatest_number(Query query) {
  switch (query) {
    case Query::check:
    case Query::wait:
    case Query::cancel_wait:  // the reply may be that to the wait
      return std::max(kNotReady, kWaitCancelled);
    case Query::watch_key:
      return kKeyWatched;
    case Query::barrier:
      return kReady;
    default:
      return std::numeric_limits<std::int64_t>::max();
  }
}

}  // namespace

void put_byte(Bytes& out, std::uint8_t value) { put(out, value); }
void put_word(Bytes& out, std::uint32_t value) { put(out, value); }
void put_number(Bytes& out, std::int64_t value) { put(out, value); }

void put_text(Bytes& out, std::string_view text) {
  put(out, static_cast<std::uint64_t>(text.size()));
  out.append(text);
}

bool has_reply(Query query) { return form_of(query).reply != ReplyForm::none; }

Result<std::optional<ServerReply>> cut_reply(std::string_view in, Query query, std::size_t keys) {
  const ReplyForm form = form_of(query).reply;
  C10DD_ASSERT(form != ReplyForm::none);
  ReplyFields fields(in);
  ServerReply reply;
  std::uint64_t texts = 0;
  if (form == ReplyForm::byte) reply.number = fields.number<std::uint8_t>();
  if (form == ReplyForm::word) reply.number = fields.number<std::uint32_t>();
  if (form == ReplyForm::text) texts = 1;
  if (form == ReplyForm::texts) texts = keys;
  if (form == ReplyForm::number || form == ReplyForm::keys || form == ReplyForm::popped) {
    reply.number = fields.number<std::int64_t>();
    if (form == ReplyForm::keys) texts = static_cast<std::uint64_t>(reply.number);
    if (form == ReplyForm::popped) texts = reply.number > 0 ? 1 : 0;
  }
  const std::int64_t least = query == Query::add ? std::numeric_limits<std::int64_t>::min() : 0;
  if (reply.number < least || reply.number > greatest_number(query)) {
    return failure(Code::malformed, "unexpected reply to {}: got the number {}, expected {} to {}",
                   name_of(query), reply.number, least, greatest_number(query));
  }
  if (texts > limits::kKeysPerJob) {
    return failure(Code::too_large, "the reply to {} has {} texts, limit {}", name_of(query), texts,
                   limits::kKeysPerJob);
  }
  for (; texts > 0 && fields.complete(); --texts) reply.texts.push_back(fields.text());
  if (fields.excess() > 0) {
    return failure(Code::too_large,
                   "the reply to {} has {} bytes before a text of {} bytes, limit {} in total",
                   name_of(query), fields.size(), fields.excess(), limits::kForeignReplyBytes);
  }
  if (!fields.complete()) return std::optional<ServerReply>();
  reply.size = fields.size();
  return std::optional(std::move(reply));
}

}  // namespace c10dd::tcpstore
