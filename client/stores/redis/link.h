// SPDX-License-Identifier: Apache-2.0
// One connection to a Redis server: sends commands, receives replies, waits for the messages of
// channels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "client/internal/stream.h"
#include "client/stores/redis/replies.h"
#include "client/stores/store_server.h"
#include "protocol/error.h"
#include "protocol/resp.h"

namespace c10dd::client::redis {

/// A call of the script, see script.h. The texts are not owned.
struct ScriptCall {
  std::vector<std::string_view> keys;
  std::vector<std::string_view> arguments;
};

/// Used by one thread at a time.
class Link {
 public:
  /// Connects, logs in, and makes the script known to the server, if the server has forgotten it.
  /// Fails with unavailable or not_found if the server cannot be reached or is not ready, with
  /// permission_denied, or with malformed if the server does not speak the protocol of Redis.
  static Result<std::unique_ptr<Link>> open(const ServerUrl& url, std::string_view script,
                                            Clock::time_point end);

  /// Makes a command. Fails with unavailable if the connection is lost, or if there is no reply
  /// until reply_end(end). Fails as refused() says if the reply is an error.
  Result<Reply> call(const RespCommand& command, Clock::time_point end);

  /// Runs the script. Fails as call() does.
  Result<Reply> run_script(const ScriptCall& call, Clock::time_point end);

  /// Returns read(reply), one of the functions of replies.h. If the reply is not what its command
  /// returns, the connection is lost: it may be one reply behind.
  template <class Read>
  std::invoke_result_t<Read, const Reply&> accept(const Result<Reply>& reply, const Read& read) {
    if (!reply) return reply.error();
    auto result = read(*reply);
    if (!result && result.error().code == Code::malformed) lost_ = true;
    return result;
  }

  /// Subscribes to channels, which must be distinct. Until unsubscribe(), only next_message() may
  /// be called.
  Result<void> subscribe(const std::vector<std::string>& channels, Clock::time_point end);
  /// Returns the channel of the next message; empty if none arrives by `end`.
  Result<std::string> next_message(Clock::time_point end);
  Result<void> unsubscribe(Clock::time_point end);

  bool is_usable() const {
    return !lost_ && !subscribed_ && !replies_.has_rest() && stream_.is_quiet();
  }
  bool is_lost() const { return lost_; }

 private:
  explicit Link(Stream stream);
  Result<void> log_in(const ServerUrl& url, Clock::time_point end);
  Result<void> send(const RespCommand& command, Clock::time_point end);
  Result<Reply> receive(Clock::time_point end);
  Result<std::optional<Reply>> receive_until(Clock::time_point end);
  Result<ChannelReply> receive_channel(std::string_view command, Clock::time_point end);
  Failure lose(std::string why);

  Stream stream_;
  ReplyCutter replies_;
  std::string_view script_;
  std::string digest_;
  bool lost_ = false;
  bool subscribed_ = false;
};

}  // namespace c10dd::client::redis
