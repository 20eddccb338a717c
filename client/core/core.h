// SPDX-License-Identifier: Apache-2.0
// The client's half of the protocol: sequences, window, re-issue, back-off, heartbeats, deadlines,
// taking back what was given up, and a new session when the old one has ended.
// Pure: no socket, no clock, no thread. A shell reports what happened (first section) and then
// does what is asked for (second section); equal reports give equal bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/core/backoff.h"
#include "client/core/calls.h"
#include "protocol/native_wire.h"

namespace c10dd::client {

struct CoreOptions {
  std::vector<std::string> addresses;  ///< host:port, at least one; tried in turn
  Hello hello;                         ///< who this is; `seen` is filled in here
  std::uint64_t seed = 0;
};

struct CoreStats {
  std::uint64_t connects = 0;
  std::uint64_t reissued = 0;
  std::uint64_t calls = 0;
  std::uint64_t failures = 0;
  std::uint64_t sessions_lost = 0;
  Duration away{0};  ///< without a session, since the first one
};

struct Completion {
  std::uint64_t call = 0;
  Reply reply;
};

class Core {
 public:
  static constexpr std::uint32_t kChannel = 1;
  static constexpr Duration kHelloPatience = std::chrono::seconds(10);

  Core(CoreOptions options, TimePoint now);

  // ---- what the shell reports

  /// Starts a call; `limit` is its deadline unless the request has a time-out of its own.
  std::uint64_t call(Request request, Duration limit, TimePoint now);
  /// A connection to address() is being made; exactly one connected() or closed() follows.
  void dialling();
  void connected(TimePoint now);
  /// The connection ended or was not made; `why` is for people. `refused`: nobody listens there.
  void closed(const std::string& why, TimePoint now, bool refused = false);
  void received(std::string_view bytes, TimePoint now);
  /// The socket took so many bytes of output().
  void written(std::size_t bytes, TimePoint now);
  /// What the server has said to the probe(), on another connection; empty: nothing.
  void probed(std::string_view first_bytes);
  void tick(TimePoint now);
  /// Heartbeats come at least so often, whatever the daemon asks for.
  void send_heartbeats(Duration limit, TimePoint now);
  /// Gives up all pending calls with this failure; later ones are made as before.
  void give_up(const Failure& reason);
  /// Gives up one call; nothing happens if it has its answer.
  void give_up(std::uint64_t call, const Failure& reason, TimePoint now);
  /// Ends everything: pending and later calls get this failure.
  void finish(const Failure& reason, TimePoint now);

  // ---- what the shell has to do

  /// Bytes for the socket.
  std::string_view output() const { return std::string_view(output_).substr(output_at_); }
  /// When to make a connection, if none is there or being made.
  std::optional<TimePoint> dial_at() const;
  const std::string& address() const;
  /// What to send to address() on another connection, to see who listens there; empty: nothing.
  /// Asked for while a server that has never been a daemon leaves the hello unanswered.
  std::string_view probe(TimePoint now) const;
  /// From when on it is asked for.
  std::optional<TimePoint> probe_at() const;
  /// False: close the socket if there is one.
  bool wants_socket() const { return state_ != State::away && state_ != State::closed; }
  std::vector<Completion> take_completions() { return std::exchange(completions_, {}); }
  /// When to call tick() or to dial.
  std::optional<TimePoint> next_deadline() const;

  bool open() const { return state_ == State::open; }
  /// The daemon counts this client as alive until its time to live after this moment: when the
  /// newest heartbeat that was answered had been sent, or when it was seen that no daemon is there.
  TimePoint last_confirmed() const { return last_confirmed_; }
  /// The smallest that send_heartbeats() was asked for.
  Duration heartbeat_limit() const { return heartbeat_limit_; }
  /// Why no call can succeed any more, if so.
  const std::optional<Failure>& over() const { return over_; }
  /// When the client gives the call up; nothing once it is answered.
  std::optional<TimePoint> deadline_of(std::uint64_t call) const;
  /// The call's name on the wire is this sequence in session(); 0: not sent, or answered.
  std::uint64_t sequence_of(std::uint64_t call) const;
  const SessionId& session() const { return options_.hello.session; }
  /// Why there is no session now, for people; says since when.
  std::string absence(TimePoint now) const;
  CoreStats stats(TimePoint now) const;

 private:
  enum class State { away, dialling, hello_sent, open, closed };

  void on_reply(const native::Frame<native::ReplyHeader>& frame, TimePoint now);
  void on_hello_reply(Reply reply, TimePoint now);
  bool ends_connection(const Failure& reason, TimePoint now);
  void superseded(const Failure& reason, TimePoint now);
  void leave_in_doubt(const Failure& reason);
  void session_lost(const Failure& reason, TimePoint now);
  void lose(std::string why, TimePoint now, Duration retry_after = Duration{0});
  void send(TimePoint now);
  void send_heartbeat(TimePoint now);
  std::size_t frame(std::uint64_t sequence, const Request& request);
  void complete(std::uint64_t call, Reply reply);
  void note(const Stamp& stamp);
  void ignored(std::string_view first_bytes);
  void recognise(std::string_view first_bytes);
  Failure given_up(const Call& call, TimePoint now) const;

  CoreOptions options_;
  Backoff backoff_;
  Calls calls_;
  State state_ = State::away;
  std::optional<Failure> over_;
  Stamp seen_;
  JobNumber job_ = 0;    // of the welcome, as is the next
  Revision opened_ = 0;  // of this session
  CoreStats stats_;
  std::vector<Completion> completions_;

  Bytes input_;  // an incomplete frame
  Bytes output_;
  std::size_t output_at_ = 0;
  bool blocked_ = false;  // the socket did not take all the output

  std::vector<std::string> redirects_;  // of not_owner; tried before our own addresses
  std::size_t address_ = 0;
  std::string why_ = "no attempt was finished";
  std::string foreign_;         // what listens there instead of a daemon
  std::size_t probes_ = 0;      // made since the server was new to us
  bool hello_ignored_ = false;  // a connection ended before the hello was answered
  TimePoint absent_since_;
  TimePoint dial_at_;
  TimePoint hello_sent_at_;

  Duration beat_{0};
  Duration heartbeat_limit_ = std::chrono::hours(1);
  Duration welcome_beat_ = std::chrono::hours(1);  // of the welcome, as are the next two
  Duration ttl_{0};
  std::size_t window_ = 0;
  TimePoint next_beat_;
  bool asked_ = false;     // a request has gone since the last answer or time to beat
  bool left_out_ = false;  // the last heartbeat was
  TimePoint last_confirmed_;
  std::optional<TimePoint> heartbeat_sent_;  // the oldest heartbeat without an answer
  std::optional<TimePoint> unheard_since_;   // a heartbeat is out and nothing came since

  std::vector<TimePoint> supersessions_;  // recent ones
};

}  // namespace c10dd::client
