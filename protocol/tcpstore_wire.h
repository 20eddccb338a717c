// SPDX-License-Identifier: Apache-2.0
// The wire format of PyTorch's TCPStore, in both directions: cuts bytes into messages of clients
// and replies of servers, and encodes both. Does no I/O. Grammar: PROTOCOL.md.
//
// PyTorch has changed the format: a Dialect is a group of its versions. A message begins with the
// code of its operation, and only the operation tells how long the message is. A message has no
// number: replies come in the order of the messages, and a server reports a failure by closing the
// connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::tcpstore {

/// The operations of all dialects.
enum class Query : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  count_keys,
  watch_key,
  remove,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_length,
  list_keys,
  barrier,
};
inline constexpr std::size_t kQueries = 20;

/// The dialects of the format. A connection of `v` begins with a message `validate`. No dialect has
/// all operations.
enum class Dialect : std::uint8_t {
  unknown,  ///< the connection has not sent enough yet
  legacy,   ///< l0 or l1: all that has come means the same in both
  l0,       ///< PyTorch 1.9 to 2.0
  l1,       ///< PyTorch 2.1
  v,        ///< PyTorch 2.2 and later; later versions have added operations
};

/// How a server recognises the dialects of connections that do not begin with `validate`.
enum class LegacyClients : std::uint8_t {
  detect,  ///< by the operations that they use
  l0,
  l1,
};

inline constexpr std::uint32_t kMagic = 0x3C85F7CE;  ///< the number in a message `validate`

// The replies that have one byte.
inline constexpr std::uint8_t kReady = 0;  ///< to check; also the end of a wait or a barrier
inline constexpr std::uint8_t kNotReady = 1;
inline constexpr std::uint8_t kWaitCancelled = 1;
inline constexpr std::uint8_t kKeyWatched = 3;

/// Returns the name of an operation, for texts.
std::string_view name_of(Query query);

/// Returns the code of an operation in a dialect. Returns nothing if the dialect `l0`, `l1` or `v`
/// does not have the operation, and for all other dialects.
std::optional<std::uint8_t> code_of(Query query, Dialect dialect);

/// A message of a client. A field that the operation does not have is empty.
struct Message {
  Query query = Query::validate;
  std::string_view key = {};
  std::string_view value = {};     ///< of compare_set: the desired value
  std::string_view expected = {};  ///< of compare_set
  /// Of add: the difference. Of barrier: the world size. Of ping: a number to send back, which is
  /// the process id of the client.
  std::int64_t number = 0;
  std::vector<std::string_view> keys = {};
  std::vector<std::string_view> values = {};  ///< of multi_set: one for each key
};

/// What is known of a message before it is whole.
struct MessageHead {
  Query query = Query::validate;
  std::string_view key;  ///< the first key; empty if the operation has no key, or no first one
  /// Of a set: the size of its value; nothing before the message is whole.
  std::optional<std::size_t> value_bytes = {};
  /// Of a multi_set: all its keys, and the sizes of their values; empty before the message is
  /// whole.
  std::vector<std::string_view> keys = {};
  std::vector<std::size_t> sizes = {};
};

/// Cuts the bytes of one connection into messages, and recognises its dialect. Remembers how far it
/// has read an incomplete message, so the costs do not depend on how the bytes are split.
class MessageCutter {
 public:
  explicit MessageCutter(LegacyClients legacy = LegacyClients::detect) : legacy_(legacy) {}

  /// Reads the first message of `in`, which must begin where the last whole message has ended.
  /// Returns true if the message is whole, and false if more bytes are needed. Fails with
  /// unknown_op, too_large or malformed; a length above its limit fails as soon as the length is
  /// there. After a failure, nothing more can be read from the connection.
  Result<bool> cut(std::string_view in);

  /// Decodes the whole message that cut() has found in `in`. Its texts point into `in`.
  Message decode(std::string_view in) const;
  /// Returns the size of that message.
  std::size_t size() const { return at_; }

  /// Returns what is known of the message that cut() has read last, with the same `in`. Returns
  /// nothing before the first key is complete.
  std::optional<MessageHead> head(std::string_view in) const;

  /// Returns the least number of bytes that the message needs to be whole, as far as is known.
  std::size_t needed() const { return needed_; }

  Dialect dialect() const { return dialect_; }

  /// Returns true if the bytes that cut() has read last are a whole `remove` of `l0`, but may also
  /// be the begin of an `append` of `l1`. A client of `l1` then sends more bytes at once, while one
  /// of `l0` waits for the reply.
  bool is_ambiguous() const { return ambiguous_; }
  /// Makes the next cut() take ambiguous bytes as a `remove` of `l0`.
  void settle_ambiguous();

 private:
  Result<bool> begin(std::string_view in);
  Result<bool> begin_legacy(std::uint8_t code);
  Result<bool> read_fields(std::string_view in);
  Result<bool> read_text(std::string_view in, bool is_key);
  bool has(std::string_view in, std::size_t bytes);
  Failure too_large(std::string_view what, std::uint64_t value, std::string_view unit,
                    std::uint64_t limit) const;

  const LegacyClients legacy_;
  Dialect dialect_ = Dialect::unknown;
  bool first_ = true;     // no message was whole yet
  bool whole_ = false;    // the last call of cut() has returned true
  bool begun_ = false;    // the operation is known
  bool settled_ = false;  // settle_ambiguous() was called
  bool ambiguous_ = false;
  Query query_ = Query::validate;
  std::size_t at_ = 0;  // size of the fields that were read
  std::size_t needed_ = 1;
  std::size_t field_ = 0;    // index of the next field
  std::size_t left_ = 0;     // texts that are left of a list
  std::size_t key_end_ = 0;  // end of the first key; 0: not read yet
};

/// Appends a message to `out`. `dialect` must be l0, l1 or v, and must have the operation.
void encode_message(Bytes& out, Dialect dialect, const Message& message);

// ---- replies -----------------------------------------------------------------------------------

void put_byte(Bytes& out, std::uint8_t value);
void put_word(Bytes& out, std::uint32_t value);
void put_number(Bytes& out, std::int64_t value);
/// Appends the length of a text, then the text.
void put_text(Bytes& out, std::string_view text);

/// A reply, as a client reads it. Its texts point into the input.
struct ServerReply {
  std::int64_t number = 0;              ///< also a single byte, and the number of a ping
  std::vector<std::string_view> texts;  ///< values or keys
  std::size_t size = 0;
};

/// Returns the reply at the start of `in` to an operation; `keys` is the number of keys of a
/// multi_get. Returns nothing if the reply is incomplete. Must not be called for an operation that
/// gets no reply. Fails with malformed if no server sends these bytes, and with too_large, as soon
/// as the length is there, if the reply has more than limits::kForeignReplyBytes or
/// limits::kKeysPerJob texts.
Result<std::optional<ServerReply>> cut_reply(std::string_view in, Query query,
                                             std::size_t keys = 0);

/// Returns true if a server replies to the operation.
bool has_reply(Query query);

}  // namespace c10dd::tcpstore
