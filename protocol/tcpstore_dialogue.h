// SPDX-License-Identifier: Apache-2.0
// The server's side of one connection of PyTorch's TCPStore: turns messages into requests of ops.h,
// and the replies to these requests into bytes. Does no I/O.
//
// Requests are passed on as their messages arrive, and their replies may come in any order. The
// bytes leave in the order of the messages, except those of a blocked `wait` or `barrier`: it holds
// nobody back, as in PyTorch's servers. A failure that the protocol cannot express ends the
// conversation, after the replies to all earlier messages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/ops.h"
#include "protocol/tcpstore_wire.h"

namespace c10dd::tcpstore {

/// Serves the requests of a conversation.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  /// Passes a request on. The Blobs of `request` may borrow from the bytes of the connection. The
  /// reply goes to TcpStoreDialogue::reply() with the same sequence, but not during this call.
  /// Returns true if the request waits for other clients; false if its reply is on the way.
  virtual bool submit(std::uint64_t sequence, const Request& request) = 0;
};

class TcpStoreDialogue {
 public:
  explicit TcpStoreDialogue(LegacyClients legacy) : cutter_(legacy) {}

  /// Takes the first message of `in`. Returns its size, or 0 if no message can be taken: the
  /// message is incomplete, the conversation is over, or is_paused(). `in` must begin where the
  /// last message that was taken has ended. Appends the bytes that can leave at once to `out`.
  std::size_t take(std::string_view in, RequestSink& to, Bytes& out);

  /// Takes the reply to a request, and appends the bytes that can now leave to `out`. Ignores the
  /// replies to requests that the client no longer waits for.
  void reply(std::uint64_t sequence, const Reply& reply, Bytes& out);

  /// Returns true if no message can be taken before more replies have come: a long reply is not yet
  /// complete, or too many replies are outstanding.
  bool is_paused() const;

  /// Returns true if the rest of a long reply is to be requested with read_on(), when the client
  /// has taken most of the bytes before.
  bool has_more() const { return more_; }
  void read_on(RequestSink& to);

  /// Returns the failure that has ended the conversation; null if it goes on. All bytes that had to
  /// leave before the end were appended.
  const Failure* over() const { return over_ ? &*over_ : nullptr; }

  /// Returns what is known of the first message of `in`, which take() would take next. Fails if the
  /// bytes are not a message. The first request of a connection decides which state it sees.
  Result<std::optional<MessageHead>> look(std::string_view in);

  /// Returns the least number of bytes of the message that take() did not find whole.
  std::size_t needed() const { return cutter_.needed(); }
  /// See MessageCutter::is_ambiguous().
  bool is_ambiguous() const { return cutter_.is_ambiguous(); }
  void settle_ambiguous() { cutter_.settle_ambiguous(); }

  Dialect dialect() const { return cutter_.dialect(); }
  /// Returns the process id of the client, if the client has sent one.
  std::optional<std::uint32_t> pid() const { return pid_; }
  /// Returns the size of the values that are held until the replies before them have left.
  std::size_t held_bytes() const { return held_; }

 private:
  /// What the reply to a message needs besides the reply to its request.
  struct Extra {
    Bytes expected;              ///< of compare_set
    Bytes desired;               ///< of compare_set
    Request page = Ping{};       ///< of multi_get and list_keys: the request of the next page
    Bytes keys;                  ///< of list_keys: the encoded keys of the pages before
    std::int64_t count = 0;      ///< number of these keys
    std::optional<Reply> early;  ///< a reply that has come before the replies to earlier messages
    std::size_t bytes = 0;       ///< how much of held_ belongs to this message
  };
  /// A message that was taken, but whose reply has not left yet.
  struct Slot {
    std::uint64_t sequence = 0;  ///< of its newest request
    Query query = Query::validate;
    bool silent = false;  ///< the client gets no reply unless it is a failure
    bool ready = false;   ///< the reply is Extra::early, or `bytes` if there is none
    Bytes bytes;
    std::unique_ptr<Extra> extra;
  };
  struct BlockedWait {
    std::uint64_t sequence = 0;
    Query query = Query::wait;
    std::uint64_t cancelled_by = 0;  ///< sequence of the cancel; 0: none
  };

  Result<bool> cut(std::string_view in);
  void pass_on(const Message& message, RequestSink& to, Bytes& out);
  void compare_set(const Message& message, RequestSink& to);
  void barrier(const Message& message, RequestSink& to);
  void submit(Query query, bool silent, const Request& request, RequestSink& to,
              std::unique_ptr<Extra> extra = nullptr);
  void submit_pages(Query query, Request first, RequestSink& to);
  void reply_now(Query query, Bytes bytes, Bytes& out);
  void cancel_waits(RequestSink& to, Bytes& out);
  void drop_waits(RequestSink& to);
  void end(Failure reason, Bytes& out);
  void reply_to_blocked(std::uint64_t sequence, const Reply& reply, Bytes& out);
  void hold(Slot& slot, const Reply& reply);
  void flush(Bytes& out);
  void pop_front();
  bool write(Slot& slot, const Reply& reply, Bytes& out);
  bool write_values(Slot& slot, const ValuePage& page, Bytes& out);
  bool write_keys(Slot& slot, const KeyPage& page, Bytes& out);

  MessageCutter cutter_;
  bool found_ = false;                ///< the cutter has found a whole message, not taken yet
  std::uint64_t sequence_ = 0;        ///< of the newest request or slot
  std::deque<Slot> slots_;            ///< by sequence; the replies leave in this order
  std::vector<BlockedWait> blocked_;  ///< by sequence
  bool paged_ = false;                ///< the newest slot has a long reply that is not complete
  bool more_ = false;                 ///< it waits for read_on()
  bool ending_ = false;               ///< no more messages are taken
  std::size_t held_ = 0;
  std::optional<std::uint32_t> pid_;
  std::optional<Failure> over_;
};

/// Returns true if a message of this operation is served without a request.
bool is_local(Query query);

}  // namespace c10dd::tcpstore
