// SPDX-License-Identifier: Apache-2.0
// Many sessions over some connections, driven in step: every member says one thing, then all
// answers are awaited. On demand each connection beats, as a client's does. Throws
// std::runtime_error on an answer that is no success.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "protocol/ops.h"
#include "tests/bench/line.h"

namespace c10dd::bench {

/// Throws unless this process may open so many connections.
void check_file_limit(const std::string& scenario, unsigned connections);

class Crowd {
 public:
  using Clock = std::chrono::steady_clock;
  using RequestOf = std::function<Request(unsigned member)>;
  using OnReply = std::function<void(unsigned member, const ReplyBody& reply)>;

  /// Member r is on connection r % connections, in a session of its own that says that it is rank
  /// r. More connections than one address has ports come from 127.0.0.2 and so on.
  Crowd(const Address& daemon, unsigned connections, unsigned members);

  /// The same sessions on new connections; what was open is forgotten.
  void reconnect(const Address& daemon);

  /// From now on each connection beats as the SDK's does (Core::beat), also while the crowd waits
  /// for replies.
  void start_to_beat() { beats_ = true; }

  /// Ends the sessions.
  void leave();

  /// One request of each member from `from` to `to` - 1: what each connection is to send.
  std::vector<Bytes> encode(unsigned from, unsigned to, const RequestOf& request_of);
  void send(const std::vector<Bytes>& out);

  /// Every member says this, and is answered.
  void ask(const RequestOf& request_of);

  /// Likewise, some members: from `from` to `to` - 1.
  void ask_some(unsigned from, unsigned to, const RequestOf& request_of);

  /// Closes the connection of a member, with all its sessions, or lets it be silent. It is not
  /// asked any more.
  void drop(unsigned member);
  void silence(unsigned member) { pings_[member % lines_.size()].ended = true; }

  /// One answer for each member that was not answered yet.
  void receive_all();

  /// Likewise, as they come: on_answers is told how many came together.
  void receive_as_they_come(const std::function<void(std::size_t)>& on_reply);

  /// Likewise, each decoded.
  void receive_each(const OnReply& on_reply);

  /// Until everything sent so far has been taken and is durable.
  void settle();

  /// Does nothing but beat.
  void rest(Clock::duration time);

 private:
  using TakeOn = std::function<std::size_t(std::size_t connection, std::string_view in)>;

  void open(const Address& daemon, std::size_t connections);
  void connect(const Address& daemon, std::size_t lines);
  void greet(std::size_t connection, std::size_t connections);
  void append_hello(Bytes& out, std::size_t rank, std::size_t connections);
  void await_welcome(std::size_t connection, std::size_t connections);
  void append(Bytes& out, unsigned member, const Request& request, std::size_t connections) const;
  void receive(std::size_t connection, std::size_t connections);
  void receive_from(std::size_t connection, std::size_t messages,
                    const std::function<std::size_t(std::string_view)>& take);
  void receive_members(const TakeOn& take, std::size_t members,
                       const std::function<void(std::size_t)>& on_reply);
  void beat();

  unsigned members_;
  std::uint64_t name_;  // of the sessions
  Hello hello_;         // of all members, but for session and rank
  std::vector<std::unique_ptr<Line>> lines_;
  struct PingState {
    bool asked = false;    ///< since the last answer or time to beat
    bool skipped = false;  ///< the last heartbeat was
    bool ended = false;    ///< the connection was closed, or says nothing any more
  };
  std::vector<PingState> pings_;  // of the lines
  bool beats_ = false;
  std::size_t greeted_ = 0;  // of the lines; these may beat
  Descriptor epoll_;
  std::uint64_t sequence_ = 0;  // of all sessions alike; the hello is 0
  std::uint64_t acked_ = 0;     // all below it are answered
  Clock::time_point next_beat_ = Clock::now();
  std::size_t slice_ = 0;  // of the lines, that beats next
};

}  // namespace c10dd::bench
