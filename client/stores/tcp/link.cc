// SPDX-License-Identifier: Apache-2.0
#include "client/stores/tcp/link.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client/stores/server_links.h"
#include "protocol/format.h"

namespace c10dd::client::tcp {

using tcpstore::Dialect;
using tcpstore::Message;
using tcpstore::Query;

namespace {

// A server of an older dialect takes `validate` and the next four bytes as a set with a long key,
// and until it has read the length of the key, it serves nobody. So at least four bytes follow, and
// they make it a length that no machine has memory for: the server closes the connection at once.
constexpr std::int64_t kFirstPing = 0xFFFFFFFF;

// PyTorch's server with libuv sometimes never reads the bytes that a connection begins with, if
// they come before it has accepted the connection. So they are soon sent again on another
// connection, each time with twice the patience.
constexpr std::chrono::milliseconds kFirstPatience{500};
constexpr std::chrono::milliseconds kMostPatience{30'000};

struct Question {
  Version version;
  std::vector<Message> messages;
  std::int64_t reply;  ///< -1: any number that is not negative
};

/// The questions, in an order in which no server mistakes one for something else: a dialect that
/// is not the server's closes the connection.
std::vector<Question> questions() {
  const Message validate{.query = Query::validate};
  const Message count{.query = Query::count_keys};
  const Message cancel{.query = Query::cancel_wait};
  return {{{Dialect::v, true},
           {validate, Message{.query = Query::ping, .number = kFirstPing}},
           kFirstPing},
          {{Dialect::v, false}, {validate, cancel, cancel, cancel, count}, -1},
          {{Dialect::l1, false}, {Message{.query = Query::cancel_wait}}, tcpstore::kWaitCancelled},
          {{Dialect::l0, false}, {count}, -1}};
}

}  // namespace

/// Opens a connection, sends the messages that it begins with, and waits for the replies. Fails
/// with malformed if the server closes the connection.
Result<Link::Begun> Link::begin(const std::string& address, tcpstore::Dialect dialect,
                                std::span<const Message> messages, Clock::time_point end) {
  for (auto patience = kFirstPatience;; patience = std::min(2 * patience, kMostPatience)) {
    Result<Stream> stream = Stream::connect(address, end);
    if (!stream) return stream.error();
    std::unique_ptr<Link> link(new Link(std::move(*stream), dialect));
    auto replies = link->exchange(messages, Clock::now() + patience);
    if (replies) return Begun{std::move(link), std::move(*replies)};
    if (!link->silent_) return failure(Code::malformed, replies.error().detail);
    if (Clock::now() >= end) return replies.error();
  }
}

Result<Version> recognise(const std::string& address, Clock::time_point end) {
  for (const Question& question : questions()) {
    const Result<Link::Begun> begun =
        Link::begin(address, question.version.dialect, question.messages, end);
    if (begun) {
      const std::int64_t number = begun->replies.back().number;
      if (question.reply < 0 ? number >= 0 : number == question.reply) return question.version;
    } else if (begun.error().code != Code::malformed) {
      return begun.error();
    }
  }
  return failure(Code::malformed,
                 "this is not a TCPStore server of PyTorch: it does not answer in any version of "
                 "the protocol; correct the URL");
}

Result<std::unique_ptr<Link>> Link::open(const std::string& address, Version version,
                                         Clock::time_point end) {
  std::vector<Message> hello;
  if (version.dialect == Dialect::v) hello.push_back({.query = Query::validate});
  if (version.pings) hello.push_back({.query = Query::ping, .number = ::getpid()});
  hello.push_back({.query = Query::check});  // of no keys: all dialects have it
  Result<Begun> begun = begin(address, version.dialect, hello, end);
  if (begun) return std::move(begun->link);
  const bool closed = begun.error().code == Code::malformed;  // it is being stopped
  return failure(closed ? Code::unavailable : begun.error().code, begun.error().detail);
}

Failure Link::lose(std::string why) {
  lost_ = true;
  return failure(Code::unavailable, std::move(why));
}

Failure Link::unexpected(std::int64_t number, std::string_view expected) {
  lost_ = true;
  return failure(Code::malformed, "unexpected reply to wait: got the number {}, expected {}",
                 number, expected);
}

Result<void> Link::send(std::span<const Message> messages, Clock::time_point end) {
  Bytes out;
  for (const Message& message : messages) tcpstore::encode_message(out, dialect_, message);
  const Result<void> sent = stream_.send(out, end);
  if (!sent) return lose(sent.error().detail);
  return {};
}

/// Reads the reply to a message. Returns false if it is not complete until `end`.
Result<bool> Link::receive(const Message& to, Clock::time_point end, LinkReply& reply) {
  while (true) {
    const auto cut = tcpstore::cut_reply(in_, to.query, to.keys.size());
    if (!cut) {
      lost_ = true;
      return cut.error();
    }
    if (*cut) {
      reply.number = (*cut)->number;
      reply.texts.assign((*cut)->texts.begin(), (*cut)->texts.end());
      in_.erase(0, (*cut)->size);
      return true;
    }
    const Result<bool> more = stream_.receive(in_, end);
    if (!more) return lose(more.error().detail);
    if (!*more) return false;
  }
}

Result<std::vector<LinkReply>> Link::exchange(std::span<const Message> messages,
                                              Clock::time_point end) {
  if (Result<void> sent = send(messages, end); !sent) return sent.error();
  std::vector<LinkReply> replies;  // `end` is for all of them together
  for (const Message& message : messages) {
    if (!tcpstore::has_reply(message.query)) continue;
    const Result<bool> whole = receive(message, end, replies.emplace_back());
    if (!whole) return whole.error();
    if (*whole) continue;
    silent_ = true;
    return lose("the server does not reply");
  }
  return replies;
}

Result<std::vector<LinkReply>> Link::call(std::span<const Message> messages,
                                          Clock::time_point end) {
  return exchange(messages, reply_end(end));
}

Result<LinkReply> Link::call(const Message& message, Clock::time_point end) {
  auto replies = call(std::span(&message, 1), end);
  if (!replies) return replies.error();
  return std::move(replies->front());
}

Result<bool> Link::wait(const std::vector<std::string_view>& keys, Clock::time_point end) {
  const Message message{.query = Query::wait, .keys = keys};
  if (Result<void> sent = send(std::span(&message, 1), reply_end(end)); !sent) return sent.error();
  LinkReply reply;
  const Result<bool> came = receive(message, end, reply);
  if (!came) return came;
  if (*came && reply.number != tcpstore::kReady) return unexpected(reply.number, "0");
  if (*came) return true;
  const Message cancel{.query = Query::cancel_wait};
  if (!tcpstore::code_of(cancel.query, dialect_)) {
    lost_ = true;  // the server still owes the reply to the wait
    return false;
  }
  Result<LinkReply> cancelled = call(cancel, end);
  if (!cancelled) return cancelled.error();
  if (cancelled->number == tcpstore::kWaitCancelled) return false;
  // The keys came at the last moment: that was the reply to the wait, and the next is the cancel's.
  const Result<bool> rest = receive(cancel, reply_end(end), reply);
  if (!rest) return rest.error();
  if (!*rest) return lose("the server does not reply");
  if (reply.number != tcpstore::kWaitCancelled) return unexpected(reply.number, "1");
  return true;
}

}  // namespace c10dd::client::tcp
