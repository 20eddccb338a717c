// SPDX-License-Identifier: Apache-2.0
#include "client/stores/redis/link.h"

#include <utility>

#include "client/stores/server_links.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::client::redis {

// ---- connections -------------------------------------------------------------------------------

Link::Link(Stream stream) : stream_(std::move(stream)) {}

Result<std::unique_ptr<Link>> Link::open(const ServerUrl& url, std::string_view script,
                                         Clock::time_point end) {
  Result<Stream> stream = Stream::connect(address_text(url.host, url.port), end);
  if (!stream) return stream.error();
  std::unique_ptr<Link> link(new Link(std::move(*stream)));
  if (Result<void> in = link->log_in(url, end); !in) return in.error();
  RespCommand load;
  load << "SCRIPT"
       << "LOAD" << script;
  Result<std::string> digest = link->accept(link->call(load, end), read_digest);
  if (!digest) return digest.error();
  link->script_ = script;
  link->digest_ = std::move(*digest);
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
  if (!reply->is_error()) return read_login(*reply);
  const std::string_view text = reply->text().substr(0, reply->text().find(','));
  Failure why = refused(text);
  if (why.code != Code::internal) return why;
  return failure(Code::permission_denied,
                 "the server refuses the login: {}; check the user and password in the URL",
                 foreign_text(text));
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
    Result<std::optional<Reply>> reply = replies_.next();
    if (!reply) lost_ = true;
    if (!reply || *reply) return reply;
    in.clear();
    const Result<bool> more = stream_.receive(in, end);
    if (!more) return lose(more.error().detail);
    if (!*more) return std::optional<Reply>();
    replies_.feed(in);
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

/// Receives a reply to a command that changes the subscriptions, or a message that comes before it.
Result<ChannelReply> Link::receive_channel(std::string_view command, Clock::time_point end) {
  const Result<std::optional<Reply>> reply = receive_until(end);
  if (!reply) return reply.error();
  if (!*reply) return lose("the server does not reply");
  if ((*reply)->is_error()) return refused((*reply)->text());
  return accept(**reply, [&](const Reply& one) { return read_channel(command, one); });
}

Result<void> Link::subscribe(const std::vector<std::string>& channels, Clock::time_point end) {
  RespCommand command;
  command << "SUBSCRIBE";
  for (const std::string& channel : channels) command << channel;
  if (Result<void> sent = send(command, end); !sent) return sent.error();
  const Clock::time_point last = reply_end(end);  // for all replies together
  for (std::size_t confirmed = 0; confirmed < channels.size();) {
    const Result<ChannelReply> reply = receive_channel("SUBSCRIBE", last);
    if (!reply) return reply.error();
    subscribed_ = true;
    // Messages may already come in between. The caller looks after this function has returned, so
    // they tell nothing new.
    if (reply->kind == "subscribe") ++confirmed;
  }
  return {};
}

Result<std::string> Link::next_message(Clock::time_point end) {
  while (true) {
    const Result<std::optional<Reply>> reply = receive_until(end);
    if (!reply) return reply.error();
    if (!*reply) return std::string();
    Result<ChannelReply> message =
        accept(**reply, [](const Reply& one) { return read_channel("SUBSCRIBE", one); });
    if (!message) return message.error();
    if (message->kind == "message") return std::move(message->channel);
  }
}

Result<void> Link::unsubscribe(Clock::time_point end) {
  RespCommand command;
  command << "UNSUBSCRIBE";
  if (Result<void> sent = send(command, end); !sent) return sent.error();
  const Clock::time_point last = reply_end(end);
  while (true) {
    const Result<ChannelReply> reply = receive_channel("UNSUBSCRIBE", last);
    if (!reply) return reply.error();
    if (reply->kind == "unsubscribe" && reply->left == 0) break;
  }
  subscribed_ = false;
  return {};
}

}  // namespace c10dd::client::redis
