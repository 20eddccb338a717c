// SPDX-License-Identifier: Apache-2.0
// Shakes hands with clients that speak TLS, on threads of its own: a handshake takes as long as
// hundreds of requests. Each has kDeadline. At most kMost are under way, and from one address at
// most kMostOfOne, so that one machine cannot keep the others out. Further connections wait unread,
// and the oldest handshake in their way has only kPatience, so that those that never end do not
// keep the others out.
// All functions are called on the loop that accepts connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/net/stream.h"
#include "daemon/shard/loop.h"
#include "protocol/tls/context.h"

namespace c10dd::daemon {

class Handshakes {
 public:
  static constexpr std::chrono::seconds kDeadline{10};
  static constexpr std::chrono::seconds kPatience{1};
  static constexpr std::size_t kMost = 1'024;
  static constexpr std::size_t kMostOfOne = 256;

  /// What has become of a connection: `stream` is decrypted, or null; then `failed` says why.
  struct Result {
    std::shared_ptr<Stream> stream;
    Failure failed;
  };
  using Then = std::function<void(Result)>;

  /// `loop` is the one that accepts connections.
  Handshakes(Loop& loop, unsigned threads, std::chrono::milliseconds deadline = kDeadline);
  ~Handshakes();

  /// Ends the handshakes under way, and their threads. begin() must not be called any more.
  void stop();

  /// Takes a connection whose first bytes, in its head, are those of TLS. Calls `then` on the loop.
  /// Does not call it if the connection ends before its turn comes.
  void begin(std::shared_ptr<Stream> plain, tls::Context context, Then then);

  std::size_t under_way() const { return under_way_.size(); }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Waiting {
    std::shared_ptr<Stream> plain;
    tls::Context context;
    Then then;
    asio::ip::address from;
  };
  /// A loop, and the thread that runs it.
  struct Worker;
  /// A handshake that is under way.
  struct Attempt;
  struct UnderWay {
    asio::ip::address from;
    std::chrono::steady_clock::time_point begun;
    std::shared_ptr<Attempt> attempt;
  };

  bool may_start(const asio::ip::address& from) const;
  void start(Waiting one);
  void ended(std::uint64_t number);
  void make_room(const asio::ip::address& from);
  void look_soon();

  Loop& loop_;
  const std::chrono::milliseconds deadline_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t next_ = 0;  // of workers_
  std::uint64_t started_ = 0;
  std::map<std::uint64_t, UnderWay> under_way_;          // by their number, so the oldest first
  bool looks_ = false;                                   // look_soon() has a timer
  std::map<asio::ip::address, std::size_t> by_address_;  // of those under way
  std::deque<Waiting> waiting_;
  const std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);  // outlives this object
};

/// Shakes hands as the client of `plain`, a connection to another daemon at `host`. The caller
/// watches the time, and cancels `plain` if it is late. Fails with the reason.
asio::awaitable<Result<std::shared_ptr<Stream>>> encrypt(std::shared_ptr<Stream> plain,
                                                         tls::Context context, std::string host);

}  // namespace c10dd::daemon
