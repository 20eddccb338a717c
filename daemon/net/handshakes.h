// SPDX-License-Identifier: Apache-2.0
// Shakes hands with clients that speak TLS, on threads of its own: a handshake takes as long as
// hundreds of requests. HandshakeQueue says whose turn it is. Each has kDeadline from its turn on.
// All functions are called on the loop that accepts connections.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/net/handshake_queue.h"
#include "daemon/net/stream.h"
#include "daemon/shard/loop.h"
#include "protocol/tls/context.h"

namespace c10dd::daemon {

class Handshakes {
 public:
  static constexpr std::chrono::seconds kDeadline{10};

  /// What has become of a connection: `stream` is decrypted, or null; then `failed` says why.
  struct Result {
    std::shared_ptr<Stream> stream;
    Failure failed;
  };
  using Then = std::function<void(Result)>;

  /// `loop` is the one that accepts connections.
  Handshakes(Loop& loop, unsigned threads, std::chrono::milliseconds deadline = kDeadline,
             HandshakeQueue::Limits limits = {});
  ~Handshakes();

  /// Ends the handshakes under way, and their threads. begin() must not be called any more.
  void stop();

  /// Takes a connection whose head has a whole ClientHello, or what is none. Calls `then` on the
  /// loop. Does not call it if the connection ends before its turn comes.
  void begin(std::shared_ptr<Stream> plain, tls::Context context, Then then);

  std::size_t under_way() const { return queue_.under_way(); }
  std::size_t waiting() const { return queue_.waiting(); }

 private:
  using Number = HandshakeQueue::Number;

  struct Waiting {
    std::shared_ptr<Stream> plain;
    tls::Context context;
    Then then;
  };
  /// A loop, and the thread that runs it.
  struct Worker;
  /// A handshake that is under way.
  struct Attempt;

  void take_turns();
  void start(Number number);
  void ended(Number number);
  void give_way(Number number);
  void end_late_ones();
  void look_soon();

  Loop& loop_;
  const std::chrono::milliseconds deadline_;
  HandshakeQueue queue_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::size_t next_ = 0;  // of workers_
  Number last_ = 0;
  bool takes_turns_ = false;
  bool looks_ = false;  // look_soon() has a timer
  std::map<Number, Waiting> waiting_;
  std::map<Number, std::shared_ptr<Attempt>> under_way_;
  const std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);  // outlives this object
};

/// Shakes hands as the client of `plain`, a connection to another daemon at `host`. The caller
/// watches the time, and cancels `plain` if it is late. Fails with the reason.
asio::awaitable<Result<std::shared_ptr<Stream>>> encrypt(std::shared_ptr<Stream> plain,
                                                         tls::Context context, std::string host);

}  // namespace c10dd::daemon
