// SPDX-License-Identifier: Apache-2.0
// Manages the sessions of one native connection, one session per channel, and decides what each
// frame of the connection means. Pure: sockets and buffers belong to the derived class.
//
// Threads: every call is made on the thread of the connection's loop, which is also the loop of
// `host`. If a job belongs to another host, its replies come through a RemoteSink.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "daemon/core/host/job_host.h"
#include "daemon/core/host/reply_sink.h"
#include "protocol/native_wire.h"

namespace c10dd::core {

/// Checks a hello before its job is looked up. Fails with version_unsupported if the client and
/// this daemon have no protocol version in common, and with too_large if the credential is too
/// long.
Result<void> check_hello(const Hello& hello);

class NativeChannels : public ReplySink, public std::enable_shared_from_this<NativeChannels> {
 public:
  /// `connection` is the number by which jobs identify the connection. No other connection of this
  /// process may have the same number.
  NativeChannels(JobHost& host, std::uint64_t connection) : host_(host), number_(connection) {}

  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) override;
  void end_session(std::uint32_t channel, const Failure& reason) override;

 protected:
  using Frame = native::Frame<native::RequestHeader>;

  /// Handles a whole frame. A hello opens a session on its channel; any other request goes to the
  /// job of the channel's session. `arrived_ns` is the time on the steady clock at which the frame
  /// was taken. Returns true if the connection must not take more frames before the next turn.
  bool take(const Frame& frame, std::int64_t arrived_ns);

  /// Detaches all sessions from the connection, which has closed.
  void close_sessions();

  /// Sends a reply to a request at once, without passing the request to a job.
  void reply(const native::RequestHeader& header, const Reply& reply);

  /// Returns true if a session was ever opened on this connection.
  bool opened() const { return opened_; }
  /// Returns the job that got the newest request; null before the first such request.
  const JobRef& last_job() const { return last_job_; }
  std::uint64_t number() const { return number_; }
  JobHost& host() { return host_; }

  // ---- what the derived class does

  /// Encodes a reply and queues it; flush() sends it.
  virtual void send(const native::ReplyHeader& header, const Reply& reply) = 0;
  /// Refuses malformed bytes or an invalid hello: sends the reason, then ends the connection.
  virtual void refuse_bytes(const native::RequestHeader& header, const Failure& reason) = 0;
  /// Counts a request, for the metrics.
  virtual void taken(const OpInfo& op) = 0;
  /// Returns the address of the client.
  virtual std::string client() const { return {}; }
  /// Counts a request of an unknown operation, for the metrics.
  virtual void unknown_op() = 0;

 private:
  struct Channel {
    SessionId session;
    JobRef job;                ///< null until the hello has opened a session
    AttachmentRef attachment;  ///< null until the hello has opened a session
  };

  void open(const native::RequestHeader& header, Hello hello);
  void opened_on(std::uint32_t channel, const JobRef& job, const AttachmentRef& attachment);
  void ask_directory(const native::RequestHeader& header, const Channel& channel,
                     const LeaseEndpoint& lease, std::int64_t arrived_ns);
  void heartbeat_for_others(const Channel& one);

  JobHost& host_;
  const std::uint64_t number_;
  JobRef last_job_;
  std::unordered_map<std::uint32_t, Channel> channels_;
  bool opened_ = false;
};

}  // namespace c10dd::core
