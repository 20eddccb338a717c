// SPDX-License-Identifier: Apache-2.0
// The sessions of one native connection, by channel: decides what its frames mean. Pure; sockets
// and buffers belong to the class that derives from it. Belongs to one loop.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "daemon/core/host/job_host.h"
#include "daemon/core/host/reply_sink.h"
#include "protocol/native_wire.h"

namespace c10dd::core {

/// Why a hello is refused before any job is asked: version_unsupported or too_large.
Result<void> check_hello(const Hello& hello);

class NativeChannels : public ReplySink, public std::enable_shared_from_this<NativeChannels> {
 public:
  /// connection: names it in its jobs; never used again in this process.
  NativeChannels(JobHost& host, std::uint64_t connection) : host_(host), number_(connection) {}

  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) override;
  void end_session(std::uint32_t channel, const Failure& reason) override;

 protected:
  using Frame = native::Frame<native::RequestHeader>;

  /// Takes a whole frame: a hello opens a session on its channel, all else goes to the job of the
  /// channel's session. True if the connection has to rest until the next turn.
  bool take(const Frame& frame, std::int64_t arrived_ns);

  /// The connection went: its sessions are detached.
  void close_sessions();

  void reply(const native::RequestHeader& header, const Reply& reply);

  bool opened() const { return opened_; }               ///< a session was opened on this connection
  const JobRef& last_job() const { return last_job_; }  ///< that it took a frame for
  std::uint64_t number() const { return number_; }
  JobHost& host() { return host_; }

  // ---- what the connection does

  /// Encodes an answer and puts it into the way out; flush() sends it.
  virtual void send(const native::ReplyHeader& header, const Reply& reply) = 0;
  /// These bytes cannot be trusted: says why and ends the connection.
  virtual void refuse_bytes(const native::RequestHeader& header, const Failure& reason) = 0;
  /// A request is taken; for metrics.
  virtual void taken(const OpInfo& op) = 0;
  /// An operation of a newer protocol is answered unknown_op; for metrics.
  virtual void unknown_op() = 0;

 private:
  struct Channel {
    JobRef job;  ///< null while its hello is under way
    Origin from;
  };

  void open(const native::RequestHeader& header, Hello hello);
  void opened_on(std::uint32_t channel, const SessionId& session, const JobRef& job);
  void heartbeat_for_others(const Channel& one);

  JobHost& host_;
  const std::uint64_t number_;
  JobRef last_job_;
  std::unordered_map<std::uint32_t, Channel> channels_;
  bool opened_ = false;
};

}  // namespace c10dd::core
