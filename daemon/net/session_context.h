// SPDX-License-Identifier: Apache-2.0
// The parts of the daemon that connections use. These parts outlive all connections.
// Thread-safe, except `first` and `shard_of`.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/config/options.h"
#include "daemon/core/effects.h"
#include "daemon/core/host/job_directory.h"
#include "daemon/core/sessions/grants.h"
#include "protocol/error.h"
#include "protocol/limits.h"

namespace c10dd::daemon {

namespace asio = boost::asio;

class Admission;
class Rechecks;
class Relay;
class Metrics;
class Shard;
class SharedBudget;
class Stream;

struct SessionContext {
  const Options& options;
  Metrics& metrics;
  SharedBudget& budget;
  const std::atomic<bool>& draining;
  Shard& first;  ///< the shard of the loop that accepts connections
  /// Returns the shard that serves a run of a job: EngineHost::shard_of(). `shard_of` is null if
  /// the first shard serves all jobs. Called on the loop that accepts connections.
  std::function<Result<Shard*>(const std::string& job, const std::string& run,
                               const core::JobAsker& asker)>
      shard_of;
  Duration hello_deadline = limits::kHelloDeadline;  ///< time limit for a client's first request
  /// Says who has sent a credential on a stream: core::NativeConnection::authenticate().
  /// `caller_of` is null if everybody may do everything. Thread-safe.
  std::function<Result<core::Caller>(const std::string& credential, const std::string& job,
                                     const Stream&)>
      caller_of = {};
  /// Counts what caller_of has said of a client that was not asked before. Null if caller_of is.
  std::function<void(const Result<core::Caller>&, const Stream&)> count_caller = {};
  /// Logs that a job has opened a session for a principal. Null if caller_of is. Thread-safe.
  std::function<void(const std::string& principal, const std::string& job, const Stream&)>
      note_admitted = {};
  /// Notes when a connection must ask caller_of again. Null if `caller_of` is.
  Rechecks* rechecks = nullptr;
  /// Says what somebody may do who sends a token over HTTP, or none, on a stream; see
  /// RequestSource::roles. Notes those who are known. `roles_of` is null if nobody is asked.
  /// Called on the loop that accepts connections.
  std::function<std::optional<Result<core::JobRoles>>(std::string_view token, const Stream&)>
      roles_of = {};
  /// Takes a connection that begins with TLS. Calls `then` with a stream that decrypts it, or not
  /// at all. `decrypt` is null without --tls. Called on the loop that accepts connections.
  std::function<void(std::shared_ptr<Stream>, std::function<void(std::shared_ptr<Stream>)> then)>
      decrypt = {};
  /// Encrypts a connection that this daemon has opened to another one, at `host`. `encrypt` is null
  /// without --tls. Called on the stream's loop.
  std::function<asio::awaitable<Result<std::shared_ptr<Stream>>>(std::shared_ptr<Stream>,
                                                                 std::string host)>
      encrypt = {};
  bool serves_plain = true;  ///< also what is not encrypted, other than TCPStore
  /// Passes connections on to other daemons; null if there are none.
  /// Called on the loop that accepts connections.
  Relay* relay = nullptr;
  /// Counts the connections of TCPStore; null: they are not counted.
  /// Called on the loop that accepts connections.
  Admission* admission = nullptr;
};

}  // namespace c10dd::daemon
