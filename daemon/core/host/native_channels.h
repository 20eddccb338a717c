// SPDX-License-Identifier: Apache-2.0
// Manages the sessions of one native connection, one session per channel, and decides what each
// frame of the connection means. Pure: the NativeConnection that owns the channels has the socket
// and the buffers.
//
// Threads: every call is made on the thread of the connection's loop, which is also the loop of
// `host`. If a job belongs to another host, its replies come through a RemoteSink.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/host/job_host.h"
#include "daemon/core/host/reply_sink.h"
#include "protocol/native_wire.h"

namespace c10dd::core {

/// Checks a hello before its job is looked up. Fails with version_unsupported if the client and
/// this daemon have no protocol version in common, and with too_large if the credential is too
/// long.
Result<void> check_hello(const Hello& hello);

/// What the channels ask of the connection that has them. It also is the sink of their sessions: it
/// passes deliver() and end_session() on to the channels. Owned by shared pointers, because hosts
/// keep one until a session has ended.
class NativeConnection : public ReplySink, public std::enable_shared_from_this<NativeConnection> {
 public:
  /// Encodes a reply and queues it; flush() sends it.
  virtual void send(const native::ReplyHeader& header, const Reply& reply) = 0;
  /// Refuses malformed bytes or an invalid hello: sends the reason, then ends the connection.
  virtual void refuse_bytes(const native::RequestHeader& header, const Failure& reason) = 0;
  /// Counts a request, for the metrics.
  virtual void taken(const OpInfo& op) = 0;
  /// Counts a request of an unknown operation, for the metrics.
  virtual void unknown_op() = 0;
  /// Says who sends this credential, and what he may do in a job. The connection may know more of
  /// its client. Fails with unauthenticated, or with permission_denied if he may do nothing in the
  /// job. The text says nothing of whether there is such a job.
  virtual Result<Caller> authenticate(const std::string& credential, const std::string& job) {
    static_cast<void>(credential), static_cast<void>(job);
    return Caller{};
  }
  /// Notes that a job has opened a session for a principal.
  virtual void admitted(const std::string& principal, const std::string& job) {
    static_cast<void>(principal), static_cast<void>(job);
  }
  /// Returns the address of the client.
  virtual std::string client() const { return {}; }
};

class NativeChannels {
 public:
  using Frame = native::Frame<native::RequestHeader>;

  /// `number` identifies the connection to the jobs. No other connection of this process may have
  /// the same number. `host` and `connection` must outlive the channels.
  NativeChannels(JobHost& host, std::uint64_t number, NativeConnection& connection)
      : host_(host), number_(number), connection_(connection) {}

  /// Handles a whole frame. A hello opens a session on its channel, if its sender may have one; any
  /// other request goes to the job of the channel's session. `arrived_ns` is the time on the steady
  /// clock at which the frame was taken. Returns true if the connection must not take more frames
  /// before the next turn.
  bool take(const Frame& frame, std::int64_t arrived_ns);
  /// Sends a reply to a request at once, without passing the request to a job.
  void reply(const native::RequestHeader& header, const Reply& reply);

  /// As ReplySink::deliver(): sends the reply of a job.
  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp);
  /// As ReplySink::end_session().
  void end_session(std::uint32_t channel, const Failure& reason);
  /// Detaches all sessions from the connection, which has closed.
  void close_sessions();
  /// Records a sign of life of the client, as a heartbeat does: bytes have come that are not taken
  /// yet, perhaps because its jobs have used up their shares of the turn. Otherwise a client would
  /// be taken for silent while its heartbeats wait behind its own requests.
  void heard();
  /// Asks again who the clients are, because a credential has expired, or the rules have changed.
  /// Ends the sessions of those who may do nothing any more. A client can open its session again
  /// with another credential. A session whose client may no longer only read, or only read from now
  /// on, has to be opened again, too.
  void recheck();

  /// Returns true if a hello has come whose client may do something in its job. The daemon owes it
  /// an answer, however long that takes.
  bool greeted() const { return greeted_; }
  /// Returns true if a session was ever opened on this connection.
  bool opened() const { return opened_; }
  /// Returns the job that got the newest request; null before the first such request.
  const JobRef& last_job() const { return last_job_; }

 private:
  /// What a client has shown, and what follows from it.
  struct Credential {
    std::string job = {};   ///< the only one in which it counts
    std::string text = {};  ///< empty if he needs none
    Access may = Access::admin;
    Duration valid_for{0};
  };
  struct Channel {
    std::uint64_t hello = 0;  ///< number of the newest hello; sessions of older ones are detached
    SessionId session;
    Credential shown;          ///< in the newest hello or authenticate
    JobRef job;                ///< null until the hello has opened a session
    AttachmentRef attachment;  ///< null until the hello has opened a session

    void charge_credential() const {
      attachment->credential = Charge(attachment->from.account, shown.text.size());
    }
  };

  void open(const native::RequestHeader& header, Hello hello);
  void opened_on(std::uint32_t channel, std::uint64_t hello, const JobRef& job,
                 const AttachmentRef& attachment);
  void authenticate(const native::RequestHeader& header, Channel& channel,
                    const Authenticate& request);
  void end_opened(std::uint32_t number, const Failure& why);
  static Credential credential_of(const std::string& job, std::string text, const Caller& caller);
  void ask_directory(const native::RequestHeader& header, const Channel& channel,
                     const LeaseEndpoint& lease, std::int64_t arrived_ns);
  void heartbeat_for_others(const Channel& one);
  const std::vector<JobRef>& jobs();
  void forget_jobs();

  JobHost& host_;
  const std::uint64_t number_;
  NativeConnection& connection_;
  JobRef last_job_;
  std::vector<JobRef> jobs_;   // of the channels, each once, by number; see jobs()
  bool jobs_changed_ = false;  // jobs_ may be out of date
  std::unordered_map<std::uint32_t, Channel> channels_;
  std::uint64_t hellos_ = 0;
  bool greeted_ = false;
  bool opened_ = false;
};

}  // namespace c10dd::core
