// SPDX-License-Identifier: Apache-2.0
// One client of PyTorch's TCPStore behind a proxy. Serves the client's TCPStore conversation, and
// holds a native session with the daemon. PyTorch's clients never connect again, but this session
// does: so the client survives the death of the daemon, and each of its changes is made once. Pure:
// no socket, no clock, no thread. The owner (client/proxy) does the I/O of both connections.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "client/core/core.h"
#include "protocol/limits.h"
#include "protocol/tcpstore_dialogue.h"

namespace c10dd::client {

class ProxiedClient final : private tcpstore::RequestSink {
 public:
  /// How long the session tries to make the last changes and to say goodbye, after the local client
  /// has gone. A session that is away for longer has expired.
  static constexpr Duration kGoodbyePatience = limits::kSessionExpiry;

  /// `options` has everything but the process id, which the local client may send. `legacy` says
  /// how to recognise old clients.
  ProxiedClient(CoreOptions options, tcpstore::LegacyClients legacy);

  // ---- the local client

  /// Takes the messages at the beginning of `in`, which must begin where the last one that was
  /// taken has ended. Returns the number of bytes taken. Takes none while the client has to wait.
  std::size_t take(std::string_view in, TimePoint now);
  /// Returns whether the owner should read from the client. `held`: the bytes that were read, and
  /// that take() has left.
  bool wants_input(std::size_t held) const;
  /// Returns the bytes to write to the local client, and forgets them.
  Bytes take_output() { return std::exchange(out_, {}); }
  bool has_output() const { return !out_.empty(); }
  /// The local client has closed its connection: ends the session.
  void leave(TimePoint now);
  /// See tcpstore::TcpStoreDialogue: the next bytes may have two meanings, which the owner settles
  /// after a while.
  bool is_ambiguous() const { return dialogue_.is_ambiguous(); }
  void settle_ambiguous() { dialogue_.settle_ambiguous(); }
  std::optional<std::uint32_t> pid() const { return dialogue_.pid(); }

  // ---- the daemon

  /// Returns the half of the session that the owner connects; null before the first request.
  Core* core() { return core_ ? &*core_ : nullptr; }
  const Core* core() const { return core_ ? &*core_ : nullptr; }
  /// Hands the replies that have come to the local client. The owner calls it after each event that
  /// it has reported to core().
  void settle(TimePoint now);

  /// Returns why the local connection must be closed, when all output was written; null if it goes
  /// on.
  const Failure* over() const;
  /// Returns whether the session has ended, so that the owner may destroy this object. Only after
  /// leave().
  bool done() const { return left_ && (!core_ || core_->over()); }
  /// Returns whether the client waits for a change of others.
  bool waits() const { return !waiting_.empty(); }
  /// Returns the number of requests to the daemon that have no reply.
  std::size_t unanswered() const { return sequences_.size(); }
  /// Core::audit().
  std::string audit(bool settled) const { return core_ ? core_->audit(settled) : std::string(); }

 private:
  bool submit(std::uint64_t sequence, const Request& request) override;
  bool may_take() const;
  bool must_wait(std::string_view in);
  void cancel(std::uint64_t sequence);
  void answer_here();

  CoreOptions options_;
  tcpstore::TcpStoreDialogue dialogue_;
  std::optional<Core> core_;
  TimePoint now_;                                      ///< of the call of take() that submits
  Bytes out_;                                          ///< for the local client
  std::map<std::uint64_t, std::uint64_t> sequences_;   ///< of the conversation, by the core's call
  std::map<std::uint64_t, std::uint64_t> waiting_;     ///< the call of each wait, by its sequence
  std::optional<std::uint64_t> value_;                 ///< the call whose reply has a value
  std::vector<std::pair<std::uint64_t, Reply>> here_;  ///< replies that need no daemon
  std::optional<Failure> over_;
  std::optional<std::uint64_t> goodbye_;  ///< the call that ends the session
  bool left_ = false;
};

}  // namespace c10dd::client
