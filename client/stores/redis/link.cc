// SPDX-License-Identifier: Apache-2.0
// hiredis parses the replies; Stream sends and receives, because its calls have deadlines.
#include "client/stores/redis/link.h"

#include <hiredis/hiredis.h>

#include <utility>

#include "client/stores/server_links.h"
#include "protocol/address.h"
#include "protocol/format.h"

namespace c10dd::client::redis {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_message(const Reply& reply, std::string_view kind) {
  return reply.size() == 3 && reply[0].text() == kind;
}

}  // namespace

// ---- replies -----------------------------------------------------------------------------------

Reply::Reply(redisReply* reply) : reply_(reply, [](redisReply* one) { freeReplyObject(one); }) {}

bool Reply::is_nil() const { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }

bool Reply::is_error() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }

std::string_view Reply::text() const {
  if (reply_ == nullptr || reply_->str == nullptr) return {};
  return {reply_->str, reply_->len};
}

std::int64_t Reply::integer() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_INTEGER ? reply_->integer : 0;
}

std::size_t Reply::size() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY ? reply_->elements : 0;
}

Reply Reply::operator[](std::size_t index) const {
  C10DD_ASSERT(index < size());
  Reply element;
  element.reply_ = std::shared_ptr<const redisReply>(reply_, reply_->element[index]);
  return element;
}

Failure refused(std::string_view text) {
  const auto with = [text](Code code, std::string_view what) {
    return failure(code, "the server refuses: {}{}", text, what);
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
  if (has(text, "OOM ")) return with(Code::quota_exceeded, "; raise maxmemory of the server");
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

// ---- connections -------------------------------------------------------------------------------

Link::Link(Stream stream)
    : stream_(std::move(stream)),
      reader_(redisReaderCreate(), [](redisReader* reader) { redisReaderFree(reader); }) {}

Result<std::unique_ptr<Link>> Link::open(const ServerUrl& url, std::string_view script,
                                         Clock::time_point end) {
  Result<Stream> stream = Stream::connect(address_text(url.host, url.port), end);
  if (!stream) return stream.error();
  std::unique_ptr<Link> link(new Link(std::move(*stream)));
  if (Result<void> in = link->log_in(url, end); !in) return in.error();
  RespCommand load;
  load << "SCRIPT"
       << "LOAD" << script;
  const Result<Reply> digest = link->call(load, end);
  if (!digest) return digest.error();
  link->script_ = script;
  link->digest_ = digest->text();
  return link;
}

/// If the server refuses the login, the failure has only the text before the first comma: the text
/// after it may quote the arguments, and so the password.
Result<void> Link::log_in(const ServerUrl& url, Clock::time_point end) {
  if (url.password.empty()) return {};
  RespCommand login;
  login << "AUTH";
  if (!url.user.empty()) login << url.user;
  login << url.password;
  if (Result<void> sent = send(login, end); !sent) return sent.error();
  const Result<Reply> reply = receive(end);
  if (!reply) return reply.error();
  if (!reply->is_error()) return {};
  const std::string_view text = reply->text().substr(0, reply->text().find(','));
  Failure why = refused(text);
  if (why.code != Code::internal) return why;
  return failure(Code::permission_denied,
                 "the server refuses: {}; check the user and password in the URL", text);
}

Failure Link::lose(std::string why) {
  lost_ = true;
  return failure(Code::unavailable, std::move(why));
}

Result<void> Link::send(const RespCommand& command, Clock::time_point end) {
  Bytes out;
  command.append_to(out);
  Result<void> sent = stream_.send(out, reply_end(end));
  if (!sent) return lose(sent.error().detail);
  return {};
}

Result<Reply> Link::receive(Clock::time_point end) {
  Result<std::optional<Reply>> reply = receive_until(reply_end(end));
  if (!reply) return reply.error();
  if (!*reply) return lose("the server does not reply");
  return std::move(**reply);
}

/// Returns nothing if there is no reply until `end`.
Result<std::optional<Reply>> Link::receive_until(Clock::time_point end) {
  Bytes in;
  while (true) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
      lost_ = true;
      return failure(Code::malformed, "this is no Redis server: {}", reader_->errstr);
    }
    if (reply != nullptr) return std::optional<Reply>(static_cast<redisReply*>(reply));
    in.clear();
    const Result<bool> more = stream_.receive(in, end);
    if (!more) return lose(more.error().detail);
    if (!*more) return std::optional<Reply>();
    redisReaderFeed(reader_.get(), in.data(), in.size());
  }
}

Result<Reply> Link::call(const RespCommand& command, Clock::time_point end) {
  if (Result<void> sent = send(command, end); !sent) return sent.error();
  Result<Reply> reply = receive(end);
  if (reply && reply->is_error()) return refused(reply->text());
  return reply;
}

Result<Reply> Link::run_script(const ScriptCall& one, Clock::time_point end) {
  const auto command = [&](std::string_view verb, std::string_view script) {
    RespCommand whole;
    whole << verb << script << one.keys.size();
    for (const std::string_view key : one.keys) whole << key;
    for (const std::string_view argument : one.arguments) whole << argument;
    return whole;
  };
  if (Result<void> sent = send(command("EVALSHA", digest_), end); !sent) return sent.error();
  Result<Reply> reply = receive(end);
  if (!reply || !reply->is_error()) return reply;
  if (!reply->text().starts_with("NOSCRIPT")) return refused(reply->text());
  // The server has forgotten its scripts, and has changed nothing.
  return call(command("EVAL", script_), end);
}

// ---- channels ----------------------------------------------------------------------------------

Result<void> Link::subscribe(const std::vector<std::string>& channels, Clock::time_point end) {
  RespCommand command;
  command << "SUBSCRIBE";
  for (const std::string& channel : channels) command << channel;
  if (Result<void> sent = send(command, end); !sent) return sent.error();
  for (std::size_t confirmed = 0; confirmed < channels.size();) {
    const Result<Reply> reply = receive(end);
    if (!reply) return reply.error();
    if (reply->is_error()) return refused(reply->text());
    subscribed_ = true;
    // Messages may already come in between. The caller looks after this function has returned, so
    // they tell nothing new.
    if (is_message(*reply, "subscribe")) ++confirmed;
  }
  return {};
}

Result<std::string> Link::next_message(Clock::time_point end) {
  while (true) {
    const Result<std::optional<Reply>> reply = receive_until(end);
    if (!reply) return reply.error();
    if (!*reply) return std::string();
    if (is_message(**reply, "message")) return std::string((**reply)[1].text());
  }
}

Result<void> Link::unsubscribe(Clock::time_point end) {
  RespCommand command;
  command << "UNSUBSCRIBE";
  if (Result<void> sent = send(command, end); !sent) return sent.error();
  while (true) {
    const Result<Reply> reply = receive(end);
    if (!reply) return reply.error();
    if (is_message(*reply, "unsubscribe") && (*reply)[2].integer() == 0) break;
  }
  subscribed_ = false;
  return {};
}

}  // namespace c10dd::client::redis
