// SPDX-License-Identifier: Apache-2.0
// What one connection of a benchmark says and understands. The load generator moves bytes and
// reads the clock; a Conversation knows the protocol. Throws std::runtime_error on an answer that
// is no success, with its text.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/types.h"
#include "tests/bench/line.h"

namespace c10dd::bench {

enum class Operation { get, set };

/// What every connection of a scenario does. Each connection has a key of its own.
struct Workload {
  Operation operation = Operation::get;
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
  unsigned daemons = 1;         ///< that share an engine; each serves a run of its own
  std::string credential = {};  ///< of hellos

  Bytes key(unsigned connection) const;
  Bytes value() const { return Bytes(value_bytes, 'v'); }
};

class Conversation {
 public:
  /// A reply at the head of the input: its bytes, 0 while it is incomplete, and which request it
  /// answers.
  struct Taken {
    std::size_t bytes = 0;
    std::uint64_t ticket = 0;
  };
  static constexpr std::uint64_t kTickets = 1024;  // at most so many are open at a time

  virtual ~Conversation() = default;

  /// Appends message `step` of the opening or the closing, each of which has one reply; false
  /// after the last.
  virtual bool opening(unsigned step, Bytes& out) = 0;
  virtual bool closing(unsigned step, Bytes& out) = 0;

  /// Whether the protocol allows another request before the next reply.
  virtual bool may_request() const { return true; }

  /// Appends the next request; its ticket is one more than the last one's.
  virtual std::uint64_t request(Bytes& out) = 0;

  virtual Taken take(std::string_view in) = 0;

  /// Appends what the protocol itself has to say after input was taken, such as an acknowledgement.
  virtual void respond(Bytes&) {}
};

/// One server under load.
struct Target {
  std::string name;                ///< echo, c10dd, redis, etcd
  std::string how;                 ///< how it was started, for the report
  std::vector<Address> addresses;  ///< the connections are spread over them
  pid_t process = 0;               ///< 0: not ours, or several
  std::function<std::unique_ptr<Conversation>(unsigned connection)> converse;
  unsigned clients_of_a_connection = 1;  ///< so many share one, each with its depth
};

std::unique_ptr<Conversation> native_conversation(const Workload& workload, unsigned connection);
std::unique_ptr<Conversation> echo_conversation(const Workload& workload, unsigned connection);
std::unique_ptr<Conversation> redis_conversation(const Workload& workload, unsigned connection);
std::unique_ptr<Conversation> etcd_conversation(const Workload& workload, unsigned connection);

/// The bytes of one request of the native protocol, and a reply to it. The echo uses both.
struct NativeBytes {
  std::size_t request = 0;
  Bytes reply;
};
NativeBytes native_bytes(const Workload& workload);

}  // namespace c10dd::bench
