// SPDX-License-Identifier: Apache-2.0
// A client that stays with one daemon, whatever the daemon replies: shows what a daemon says when
// another one has taken its job over. The SDK would follow the job.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/internal/stream.h"
#include "protocol/native_wire.h"

namespace c10dd::torture {

class LoyalClient {
 public:
  /// Opens a session in the job, with the credentials of the environment. Throws if the daemon does
  /// not reply to the hello in time.
  LoyalClient(const std::string& address, const std::string& job,
              std::chrono::milliseconds patience);

  /// Returns the reply to the hello.
  const Reply& welcome() const { return welcome_; }

  /// Returns whether the daemon has set the key.
  bool set(const std::string& key, const std::string& value, std::chrono::milliseconds patience);

  /// Sends `gets` requests for the key and a heartbeat. Returns how many requests were sent: fewer
  /// if the daemon has closed the connection.
  unsigned ask(const std::string& key, unsigned gets);

  struct Heard {
    unsigned done = 0;                 ///< replies without a value, but to heartbeats
    unsigned refused = 0;              ///< replies that are failures
    unsigned heartbeats = 0;           ///< heartbeats that the daemon has answered
    std::vector<std::string> values;   ///< that the daemon has sent
    std::vector<std::string> reasons;  ///< of the failures, without repeats
    bool ended = false;                ///< the daemon has closed the connection
  };
  /// Reads until all requests have a reply, the connection has ended, or the time is over.
  Heard listen(std::chrono::milliseconds patience);

 private:
  using Time = client::Stream::Time;

  LoyalClient(const std::string& address, const std::string& job,
              std::chrono::milliseconds patience, const std::shared_ptr<client::Tls>& tls);

  bool send(const Request& request);
  bool receive(Time until);
  std::optional<Reply> next(native::ReplyHeader& header);

  const std::chrono::milliseconds patience_;
  client::Stream stream_;
  Bytes in_;
  std::uint64_t sequence_ = 0;
  unsigned open_ = 0;  ///< requests without a reply
  Reply welcome_{ReplyBody(Done{})};
};

}  // namespace c10dd::torture
