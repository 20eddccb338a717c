// SPDX-License-Identifier: Apache-2.0
// The client's half of the protocol: sequences, window, re-issue, back-off, heartbeats, deadlines,
// cancels of calls that nobody waits for, and a new session when the old one has ended.
// Pure: no socket, no clock, no thread. A shell reports what happened (first section) and then does
// what the core asks for (second section). Equal reports give equal bytes.
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
  Hello hello;                         ///< identity of the client; the core sets `seen`
  std::uint64_t seed = 0;              ///< of the back-off and of the ids of later sessions
};

/// See ClientStats in client/client.h.
struct CoreStats {
  std::uint64_t connects = 0;
  std::uint64_t reissued = 0;
  std::uint64_t calls = 0;
  std::uint64_t failures = 0;
  std::uint64_t sessions_lost = 0;
  Duration away{0};
};

/// The reply to a call, or its failure.
struct Completion {
  std::uint64_t call = 0;
  Reply reply;
};

/// One client of one job: decides what to send, when to connect and when to stop waiting.
class Core {
 public:
  static constexpr std::uint32_t kChannel = 1;
  /// How long a server may leave the hello without a reply.
  static constexpr Duration kHelloPatience = std::chrono::seconds(10);

  Core(CoreOptions options, TimePoint now);

  // ---- what the shell reports

  /// Starts a call and returns its id. `limit` is its time-out unless the request has one of its
  /// own.
  std::uint64_t call(Request request, Duration limit, TimePoint now);
  /// Reports that the shell connects to address(). Exactly one connected() or closed() must follow.
  void dialling();
  void connected(TimePoint now);
  /// Reports that the connection has ended or was not made. `why` is for people. `refused`: no
  /// process listens at the address.
  void closed(const std::string& why, TimePoint now, bool refused = false);
  void received(std::string_view bytes, TimePoint now);
  /// Reports that the socket took the first `bytes` of output().
  void written(std::size_t bytes, TimePoint now);
  /// Reports the first bytes that the server sent after probe(); empty: it sent none.
  void probed(std::string_view first_bytes);
  /// Ends the calls and the connection that have timed out, and sends the heartbeat that is due.
  void tick(TimePoint now);
  /// Sends heartbeats at least this often, whatever interval the daemon asks for.
  void send_heartbeats(Duration limit, TimePoint now);
  /// Ends all pending calls with this failure. Later calls are not affected.
  void give_up(const Failure& reason);
  /// Ends one call with this failure; does nothing if the call has its reply.
  void give_up(std::uint64_t call, const Failure& reason, TimePoint now);
  /// Ends the client: pending and later calls get this failure.
  void finish(const Failure& reason, TimePoint now);

  // ---- what the shell has to do

  /// Returns the bytes to write to the socket.
  std::string_view output() const { return std::string_view(output_).substr(output_at_); }
  /// Returns when to connect; empty while a connection exists or is being made.
  std::optional<TimePoint> dial_at() const;
  const std::string& address() const;
  /// Returns the bytes to send to address() on a separate connection, to find out which server
  /// listens there; empty: send none. The core asks for a probe while a server that has never been
  /// a daemon does not reply to the hello.
  std::string_view probe(TimePoint now) const;
  /// Returns when probe() will ask for one.
  std::optional<TimePoint> probe_at() const;
  /// Returns whether the shell keeps a socket; if not, it closes the one that it has.
  bool wants_socket() const { return state_ != State::away && state_ != State::closed; }
  std::vector<Completion> take_completions() { return std::exchange(completions_, {}); }
  /// Returns when to call tick() or to connect.
  std::optional<TimePoint> next_deadline() const;

  bool open() const { return state_ == State::open; }
  /// Returns the start of the time to live by which the daemon counts this client as alive: the
  /// send time of the newest heartbeat or hello that has a reply, or the time at which a connection
  /// was refused or the daemon said that it is unavailable.
  TimePoint last_confirmed() const { return last_confirmed_; }
  /// Returns the smallest limit that send_heartbeats() was given.
  Duration heartbeat_limit() const { return heartbeat_limit_; }
  /// Returns why no call can succeed any more; empty while calls can.
  const std::optional<Failure>& over() const { return over_; }
  /// Returns when the client stops waiting for the reply to a call; empty once it has the reply.
  std::optional<TimePoint> deadline_of(std::uint64_t call) const;
  /// Returns the sequence of the call in session(), which identifies it on the wire; 0: the call
  /// was not sent, or has its reply.
  std::uint64_t sequence_of(std::uint64_t call) const;
  const SessionId& session() const { return options_.hello.session; }
  /// Returns a text for people: since when there is no session, and why.
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
  void hello_ignored(std::string_view first_bytes);
  void recognise(std::string_view first_bytes);
  Failure timed_out(const Call& call, TimePoint now) const;

  CoreOptions options_;
  Backoff backoff_;
  Calls calls_;
  State state_ = State::away;
  std::optional<Failure> over_;
  Stamp seen_;
  JobNumber job_ = 0;    // from the welcome
  Revision opened_ = 0;  // from the welcome: when this session was opened
  CoreStats stats_;
  std::vector<Completion> completions_;

  Bytes input_;   // an incomplete frame
  Bytes output_;  // from output_at_ on not written yet
  std::size_t output_at_ = 0;
  bool blocked_ = false;  // the socket did not take all the output

  std::vector<std::string> redirects_;  // from not_owner; tried before options_.addresses
  std::size_t address_ = 0;             // index in options_.addresses
  std::string why_ = "no attempt has finished yet";  // of the last loss
  std::string foreign_;         // protocol of the server, if it is not a daemon
  std::size_t probes_ = 0;      // sent since the address last refused a connection
  bool hello_ignored_ = false;  // a connection ended before the reply to the hello
  TimePoint absent_since_;
  TimePoint dial_at_;
  TimePoint hello_sent_at_;

  Duration heartbeat_interval_{0};  // the smaller of the next two
  Duration heartbeat_limit_ = std::chrono::hours(1);
  Duration welcome_interval_ = std::chrono::hours(1);  // from the welcome
  Duration ttl_{0};                                    // from the welcome
  std::size_t window_ = 0;                             // from the welcome
  TimePoint next_heartbeat_;
  bool request_sent_ = false;  // since the last reply, or since a heartbeat was last due
  bool skipped_ = false;       // the last heartbeat that was due
  TimePoint last_confirmed_;
  std::optional<TimePoint> heartbeat_sent_;  // the oldest heartbeat without a reply
  std::optional<TimePoint> unheard_since_;   // a heartbeat was sent then, no byte received since

  std::vector<TimePoint> supersessions_;  // within kSupersessionSpan
};

}  // namespace c10dd::client
