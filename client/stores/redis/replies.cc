// SPDX-License-Identifier: Apache-2.0
#include "client/stores/redis/replies.h"

#include <utility>

#include "client/stores/checks.h"
#include "protocol/format.h"
#include "protocol/hiredis_reader.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client::redis {
namespace {

using Keys = StoreServer::Keys;

constexpr std::size_t kDigestBytes = 40;  // SHA-1 in hexadecimal digits

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

// ---- replies -----------------------------------------------------------------------------------

bool Reply::is(int type) const { return reply_ != nullptr && reply_->type == type; }
bool Reply::is_nil() const { return reply_ == nullptr || is(REDIS_REPLY_NIL); }
bool Reply::is_error() const { return is(REDIS_REPLY_ERROR); }
bool Reply::is_text() const { return is(REDIS_REPLY_STRING) || is(REDIS_REPLY_STATUS); }
bool Reply::is_integer() const { return is(REDIS_REPLY_INTEGER); }
bool Reply::is_array(std::size_t count) const { return is(REDIS_REPLY_ARRAY) && size() == count; }

std::string_view Reply::text() const {
  if (!is_text() && !is_error()) return {};
  return {reply_->str, reply_->len};
}

std::int64_t Reply::integer() const { return is_integer() ? reply_->integer : 0; }

std::size_t Reply::size() const { return is(REDIS_REPLY_ARRAY) ? reply_->elements : 0; }

Reply Reply::operator[](std::size_t index) const {
  C10DD_ASSERT(index < size());
  return Reply(std::shared_ptr<const redisReply>(reply_, reply_->element[index]));
}

std::string Reply::form() const {
  if (is_nil()) return "nil";
  if (is_error()) return "the error " + quoted_text(foreign_text(text()));
  if (is_integer()) return format("the integer {}", integer());
  if (is_text()) return format("a string of {} bytes", text().size());
  if (is(REDIS_REPLY_ARRAY)) return format("an array of {} elements", size());
  return format("a reply of type {}", reply_->type);
}

ReplyCutter::ReplyCutter() : reader_(std::make_unique<HiredisReader>(limits::kKeysPerJob)) {}
ReplyCutter::~ReplyCutter() = default;

void ReplyCutter::feed(std::string_view bytes) { reader_->feed(bytes); }
bool ReplyCutter::has_rest() const { return reader_->has_rest(); }

Result<std::optional<Reply>> ReplyCutter::next() {
  Result<HiredisReply> reply = reader_->next(limits::kForeignReplyBytes);
  if (!reply && reply.error().code == Code::malformed) {
    return failure(Code::malformed, "this is not a Redis server: {}", reply.error().detail);
  }
  if (!reply) return reply.error();
  if (*reply == nullptr) return std::optional<Reply>();
  const std::shared_ptr<const redisReply> shared(reply->release(), FreeHiredis());
  return std::optional(Reply(shared));
}

// ---- failures ----------------------------------------------------------------------------------

Failure refused(std::string_view text) {
  const auto with = [text](Code code, std::string_view what) {
    return failure(code, "the server refuses the command: {}{}", foreign_text(text), what);
  };
  for (const std::string_view word : {"NOAUTH", "WRONGPASS", "NOPERM"}) {
    if (has(text, word)) {
      return with(Code::permission_denied, "; check the user and password in the URL");
    }
  }
  if (has(text, "WRONGTYPE")) {
    return with(Code::wrong_type,
                "; another program uses a key of this job: use another job, or remove that key");
  }
  if (has(text, "OOM ")) return with(Code::quota_exceeded, "; raise maxmemory on the server");
  for (const std::string_view word : {"MOVED ", "ASK ", "CROSSSLOT"}) {
    if (text.starts_with(word)) {
      return with(Code::unsupported, "; a Redis Cluster cannot keep a store: use a single server");
    }
  }
  for (const std::string_view word : {"LOADING", "BUSY", "MASTERDOWN", "READONLY", "MISCONF",
                                      "NOREPLICAS", "CLUSTERDOWN", "ERR max number of clients"}) {
    if (text.starts_with(word)) return with(Code::unavailable, "");
  }
  return with(Code::internal, "");
}

Failure unexpected(std::string_view command, const Reply& reply, std::string_view expected) {
  return failure(Code::malformed,
                 "unexpected reply to {}: got {}, expected {}; check that the URL leads to a Redis "
                 "server, and not to a proxy that changes its replies",
                 command, reply.form(), expected);
}

// ---- commands ----------------------------------------------------------------------------------

Result<void> read_login(const Reply& reply) {
  if (reply.is_text() && reply.text() == "OK") return {};
  return unexpected("AUTH", reply, "OK");
}

Result<std::string> read_digest(const Reply& reply) {
  if (reply.is_text() && reply.text().size() == kDigestBytes) return std::string(reply.text());
  return unexpected("SCRIPT LOAD", reply, format("a string of {} bytes", kDigestBytes));
}

Result<std::uint64_t> read_number(std::string_view command, const Reply& reply) {
  if (reply.is_integer() && reply.integer() >= 0) {
    return static_cast<std::uint64_t>(reply.integer());
  }
  return unexpected(command, reply, "an integer of at least 0");
}

Result<void> read_set(const Reply& reply) {
  if (reply.integer() == 1) return {};
  return unexpected("set", reply, "the integer 1");
}

Result<Found> read_values(const Reply& reply, const Keys& keys) {
  if (!reply.is_array(keys.size())) {
    return unexpected("get", reply, format("an array of {} elements", keys.size()));
  }
  Found found;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Reply value = reply[i];
    if (!value.is_nil() && !value.is_text()) {
      return unexpected("get", value, format("a string or nil as element {}", i));
    }
    if (value.is_nil()) found.missing.push_back(keys[i]);
    found.values.emplace_back(value.text());
  }
  return found;
}

Result<Found> read_presence(const Reply& reply, const Keys& keys) {
  const std::string_view digits = reply.text();
  if (!reply.is_text() || digits.size() != keys.size() ||
      digits.find_first_not_of("01") != std::string_view::npos) {
    return unexpected("exist", reply, format("a string of {} digits, each 0 or 1", keys.size()));
  }
  Found found;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (digits[i] == '0') found.missing.push_back(keys[i]);
  }
  return found;
}

Result<std::int64_t> read_sum(const Reply& reply, const std::string& key, std::int64_t delta) {
  constexpr std::string_view kExpected = "an array of two strings";
  if (!reply.is_array(2)) return unexpected("add", reply, kExpected);
  for (const Reply& element : {reply[0], reply[1]}) {
    if (!element.is_text()) return unexpected("add", element, kExpected);
  }
  const std::string_view outcome = reply[0].text();
  const auto number = parse_number<std::int64_t>(reply[1].text());
  if (outcome == "sum") {
    if (number) return *number;
    return unexpected("add", reply[1], "a sum that is a 64-bit integer");
  }
  if (has(outcome, "overflow") && number) return sum_overflows(*number, delta);
  if (has(outcome, "not an integer")) return not_a_counter(key, reply[1].text().size());
  return refused(outcome);
}

Result<std::string> read_compared(const Reply& reply, const std::string& expected,
                                  const std::string& desired) {
  if (reply.is_array(1) && reply[0].integer() == 1) return desired;
  if (reply.is_array(2) && reply[0].is_integer() && reply[0].integer() == 0) {
    if (reply[1].is_nil()) return expected;  // as c10d does
    if (reply[1].is_text()) return std::string(reply[1].text());
  }
  return unexpected("compare_set", reply, "an array with 1, or with 0 and a string or nil");
}

Result<std::optional<std::string>> read_item(const Reply& reply) {
  if (reply.is_nil()) return std::optional<std::string>();
  if (reply.is_text()) return std::optional(std::string(reply.text()));
  return unexpected("pop", reply, "a string or nil");
}

Result<Keys> read_names(const Reply& reply, std::string_view prefix) {
  constexpr std::string_view kExpected = "an array of strings that begin with the prefix";
  if (!reply.is_array(reply.size())) return unexpected("ZRANGEBYLEX", reply, kExpected);
  Keys names;
  names.reserve(reply.size());
  for (std::size_t i = 0; i < reply.size(); ++i) {
    const Reply name = reply[i];
    if (!name.is_text() || !name.text().starts_with(prefix)) {
      return unexpected("ZRANGEBYLEX", name, kExpected);
    }
    names.emplace_back(name.text());
  }
  return names;
}

Result<ChannelReply> read_channel(std::string_view command, const Reply& reply) {
  constexpr std::string_view kExpected =
      "an array with a kind, a channel, and an integer or a string";
  if (!reply.is_array(3) || !reply[0].is_text()) return unexpected(command, reply, kExpected);
  ChannelReply read{std::string(reply[0].text()), std::string(reply[1].text()), reply[2].integer()};
  const bool message = read.kind == "message";
  if (message && reply[1].is_text() && reply[2].is_text()) return read;
  if (!message && reply[2].is_integer()) return read;
  return unexpected(command, reply, kExpected);
}

}  // namespace c10dd::client::redis
