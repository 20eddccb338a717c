// SPDX-License-Identifier: Apache-2.0
// The client's half of the protocol: sequences, the window, repeated calls, delays between
// connects, heartbeats, deadlines, Cancels of abandoned calls, and the change to the next session.
// Pure: no socket, no clock, no thread. Class Connection owns a Core and does the I/O. The owner
// reports events with the first group of methods, then calls the second group to learn what to do.
// Equal events give equal bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/core/addresses.h"
#include "client/core/backoff.h"
#include "client/core/calls.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::client {

struct CoreOptions {
  std::vector<std::string> addresses;  ///< at least one host:port, of the daemons of one engine
  Hello
      hello;  ///< identity of the client; `seen` is what an earlier client of it has seen, or empty
  std::uint64_t seed = 0;  ///< of the first address, the back-off and the ids of later sessions
  bool probes = true;  ///< false: probe() finds out nothing, because the connection is encrypted
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

/// Returns whether a refused hello means that the daemon does not let this client in, although it
/// serves others. not_found: the job or run does not exist, and this client may not make it.
bool is_denial(Code code);

/// One client of one job: decides what to send, when to connect and when to stop waiting.
class Core {
 public:
  static constexpr std::uint32_t kChannel = 1;
  /// How long the client waits for a connection, and then for the reply to the hello, if it knows
  /// one address only. See Addresses::kPatience.
  static constexpr Duration kConnectPatience = std::chrono::milliseconds(2500);
  static constexpr Duration kHelloPatience = std::chrono::seconds(10);

  Core(CoreOptions options, TimePoint now);

  // ---- what the owner reports

  /// Starts a call and returns its id. If the request has no time-out of its own, `limit` is the
  /// time-out of the call.
  std::uint64_t call(Request request, Duration limit, TimePoint now);
  /// Reports that the owner starts to connect to address(). The owner must then call connected() or
  /// closed() exactly once. `other_machine` says that the daemon is not on this machine.
  void dialling();
  void connected(TimePoint now, bool other_machine = false);
  /// Reports that the connection has ended or could not be made. `why` is a text for users.
  /// `refused` means that no process listens at the address.
  void closed(const std::string& why, TimePoint now, bool refused = false);
  /// Reports why no connection could be made. Code::not_found: no process listens at the address;
  /// Code::unavailable: the daemon may come. Any other code is a reason that a later attempt will
  /// meet, too: the credential cannot be read, or the daemon is not trusted. That ends a client
  /// that never had a session and knows one address only; all others try on.
  void dial_failed(const Failure& why, TimePoint now);
  /// Sets the credential of the next hello. If there is a session, shows it at once.
  void show(Bytes credential, TimePoint now);
  const Bytes& credential() const { return options_.hello.credential; }
  void received(std::string_view bytes, TimePoint now);
  /// Reports that the first `bytes` bytes of output() were written to the socket.
  void written(std::size_t bytes, TimePoint now);
  /// Reports the first bytes of the server's reply to a probe; empty if no reply came.
  void probed(std::string_view first_bytes);
  /// Ends calls that have timed out. Ends the connection if the server is silent for too long.
  /// Sends the heartbeat if it is due.
  void tick(TimePoint now);
  /// Sends heartbeats at least once per `limit`, even if the daemon asks for longer intervals.
  void send_heartbeats(Duration limit, TimePoint now);
  /// Ends all pending calls with this failure. Later calls are not affected.
  void fail_calls(const Failure& reason);
  /// Ends one call with this failure; does nothing if the call has already ended.
  void fail_call(std::uint64_t call, const Failure& reason, TimePoint now);
  /// Ends the client: pending and later calls get this failure.
  void finish(const Failure& reason, TimePoint now);

  // ---- what the owner has to do

  /// Returns the bytes to write to the socket.
  std::string_view output() const { return std::string_view(output_).substr(output_at_); }
  /// Returns the time at which to connect. Empty while a connection exists or is being made, and
  /// after finish().
  std::optional<TimePoint> dial_at() const;
  const std::string& address() const { return addresses_.current(); }
  /// Returns how long the owner may try to connect to address().
  Duration connect_patience() const { return addresses_.patience(kConnectPatience); }
  /// Returns how long a handshake of TLS may take after that.
  Duration handshake_patience() const { return addresses_.patience(limits::kHandshakePatience); }
  /// Returns the bytes to send to address() on a separate connection, to find out which server
  /// listens there; empty if no probe is due. A probe is due if the server does not reply to the
  /// hello, this client has never had a session, and it knows no other address.
  std::string_view probe(TimePoint now) const;
  /// Returns the time at which the next probe is due; empty if none will be due.
  std::optional<TimePoint> probe_at() const;
  /// Returns whether the owner must read the credential again, and call show(): the one that the
  /// daemon has seen expires soon.
  bool wants_credential(TimePoint now) const {
    return state_ == State::open && renew_at_ && now >= *renew_at_;
  }
  /// Returns whether the owner must keep its socket open. If false, the owner closes the socket.
  bool wants_socket() const { return state_ != State::away && state_ != State::closed; }
  std::vector<Completion> take_completions() { return std::exchange(completions_, {}); }
  /// Returns the time at which to call tick() or to connect, whichever is due first.
  std::optional<TimePoint> next_deadline() const;

  bool open() const { return state_ == State::open; }
  /// Returns the time from which the owner must count the ttl of this client. The daemon counts the
  /// ttl from the same time or from a later one. The newest of these events sets the time: a
  /// heartbeat or hello was sent that now has a reply, or the reply that the daemon loads the job;
  /// a connection was refused; the daemon replied that it is unavailable. If only one daemon can
  /// serve the job (Welcome::takeover_grace is 0), the last three events count at the address where
  /// the client had its last session. Otherwise they count at any address, the last two until
  /// Welcome::takeover_grace after the last heartbeat or hello was sent that has a reply.
  TimePoint last_confirmed() const { return last_confirmed_; }
  /// Returns the smallest limit that was passed to send_heartbeats().
  Duration heartbeat_limit() const { return heartbeat_limit_; }
  /// Returns the failure that has ended the client; empty while calls can still succeed.
  const std::optional<Failure>& over() const { return over_; }
  /// Returns the time at which the client stops waiting for the reply to a call; empty if the call
  /// has its reply.
  std::optional<TimePoint> deadline_of(std::uint64_t call) const;
  /// Returns the sequence that identifies the call on the wire in session(); 0 if the call was not
  /// sent, or has its reply.
  std::uint64_t sequence_of(std::uint64_t call) const;
  const SessionId& session() const { return options_.hello.session; }
  /// Returns the newest stamp that the client knows.
  const Stamp& seen() const { return seen_; }
  /// Returns a text for users that says how long there has been no session, and why.
  std::string absence(TimePoint now) const;
  CoreStats stats(TimePoint now) const;
  /// Recounts the books. Returns the first contradiction, or an empty text if there is none. If
  /// `settled`, the daemon has had time to reply, so each Cancel must have its reply.
  std::string audit(bool settled) const;

 private:
  enum class State { away, dialling, hello_sent, open, closed };

  void on_reply(const native::Frame<native::ReplyHeader>& frame, TimePoint now);
  void on_hello_reply(Reply reply, TimePoint now);
  void valid_for(Duration time, TimePoint now);
  bool ends_connection(const Failure& reason, TimePoint now);
  void superseded(const Failure& reason, TimePoint now);
  void leave_in_doubt(const Failure& reason);
  void session_lost(const Failure& reason, TimePoint now);
  void not_owner(const Failure& reason, TimePoint now);
  void unavailable(const Failure& reason, TimePoint now);
  void loading(const Failure& reason, TimePoint now);
  void say_hello(TimePoint now);
  void served();
  void refused_or_unavailable(TimePoint now);
  void lose(std::string why, TimePoint now);
  void stay(std::string why, TimePoint now, Duration retry_after = Duration{0});
  void leave(std::string why, TimePoint now, bool slow = false);
  void turned_away(std::string why, TimePoint now, Duration retry_after);
  Duration next_pause();
  void disconnect(TimePoint now, Duration delay);
  std::string cause() const;
  Duration heartbeat_patience() const;
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
  Revision opened_ = 0;  // Welcome::opened: the revision at which this session was opened
  CoreStats stats_;
  std::vector<Completion> completions_;

  Bytes input_;   // an incomplete frame
  Bytes output_;  // output to write; the bytes before output_at_ are already written
  std::size_t output_at_ = 0;
  bool blocked_ = false;  // the socket did not take all the output

  Addresses addresses_;
  std::string dialled_;                              // the address of the last attempt
  std::string why_ = "no attempt has finished yet";  // cause of the last loss
  std::string foreign_;         // recognised protocol of a server that is not a daemon
  std::size_t probes_ = 0;      // probes sent since the address last refused a connection
  bool denied_ = false;         // the daemon has not let this client in, and is there
  bool hello_ignored_ = false;  // a connection ended before the reply to the hello
  std::optional<TimePoint> unavailable_since_;  // time of the first `unavailable` at this address
  TimePoint absent_since_;
  TimePoint dial_at_;
  TimePoint hello_sent_at_;
  std::optional<TimePoint> ask_again_at_;  // while the daemon loads the job: of the next hello
  bool loading_ = false;                   // the daemon has said that it loads the job

  Duration heartbeat_interval_{0};  // the smaller of welcome_interval_ and heartbeat_limit_
  static constexpr Duration kNoLimit = std::chrono::hours(1);
  Duration heartbeat_limit_ = kNoLimit;
  Duration welcome_interval_ = std::chrono::hours(1);  // from the welcome
  Duration ttl_{0};                                    // from the welcome
  std::optional<TimePoint> renew_at_;                  // empty: the credential does not expire
  Duration renew_pause_{0};                            // between attempts to renew it
  std::size_t window_ = 0;                             // from the welcome
  TimePoint next_heartbeat_;
  bool request_sent_ = false;  // sent after the last reply and the last due heartbeat
  bool skipped_ = false;       // the last due heartbeat was not sent
  TimePoint last_confirmed_;
  TimePoint replied_to_;        // send time of the newest heartbeat or hello that has a reply
  Duration takeover_grace_{0};  // from the welcome
  std::string welcomed_at_;     // the address of the last session; empty if there was none
  std::optional<TimePoint> heartbeat_sent_;  // send time of the oldest heartbeat without a reply
  std::optional<TimePoint> unheard_since_;   // time from which the daemon's silence is measured

  std::vector<TimePoint> supersessions_;  // within kSupersessionSpan
};

}  // namespace c10dd::client
