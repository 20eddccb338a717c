// SPDX-License-Identifier: Apache-2.0
// Many sessions over some connections, driven in step: every member says one thing, then all
// answers are awaited. Throws std::runtime_error on an answer that is no success.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "protocol/ops.h"
#include "tests/bench/line.h"

namespace c10dd::bench {

class Crowd {
 public:
  using RequestOf = std::function<Request(unsigned member)>;

  /// Member r is on connection r % connections, in a session of its own that says that it is rank
  /// r. More connections than one address has ports come from 127.0.0.2 and so on.
  Crowd(const Address& daemon, unsigned connections, unsigned members);

  /// Ends the sessions.
  void leave();

  /// One request of each member from `from` to `to` - 1: what each connection is to send.
  std::vector<Bytes> encode(unsigned from, unsigned to, const RequestOf& request_of);
  void send(const std::vector<Bytes>& out);

  /// Every member says this, and is answered.
  void ask(const RequestOf& request_of);

  /// One answer for each member that was not answered yet.
  void receive_all();

  /// Likewise, as they come: on_answers is told how many came together.
  void receive_as_they_come(const std::function<void(std::size_t)>& on_answers);

  /// Until everything sent so far has been taken and is durable.
  void settle();

 private:
  void append(Bytes& out, unsigned member, const Request& request, std::size_t connections) const;
  void receive(std::size_t connection, std::size_t connections);

  unsigned members_;
  std::vector<std::unique_ptr<Line>> lines_;
  Descriptor epoll_;
  std::uint64_t sequence_ = 0;  // of all sessions alike; the hello is 0
  std::uint64_t acked_ = 0;     // all below it are answered
};

}  // namespace c10dd::bench
