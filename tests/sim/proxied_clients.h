// SPDX-License-Identifier: Apache-2.0
// Local clients of a node proxy: they send the bytes of PyTorch's TCPStore to the product's
// ProxiedClient, and read its bytes. Their calls go into the records beside those of native
// clients, so all oracles judge them: each change is made once. An oracle of their own: nobody is
// closed but for a reason that the proxy may have, and every message gets its reply.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/core/proxied_client.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/records.h"

namespace c10dd::sim {

/// One local client, with its half of the proxy.
class ProxiedClient final : public Process, public Endpoint {
 public:
  ProxiedClient(World& world, const Swarm& swarm, Network& network, Records& records,
                DriftingClock clock, std::uint32_t number, std::uint64_t seed, unsigned messages);

  void start() { wake_at(world_.now()); }
  void on_bytes(const LinkRef& link, std::string bytes) override;
  void on_closed(const LinkRef& link) override;
  /// The local client ends.
  void leave();
  void stop_asking() { left_ = 0; }
  void cut_off(Duration how_long);
  /// Returns a text about what is under way; empty if nothing is.
  std::string unsettled() const;
  /// Returns what does not add up in the books of its connection; empty if all does.
  std::string audit() const { return dead() ? "" : client_.audit(true); }

 private:
  void end_turn() override;
  void ask();
  void send(const tcpstore::Message& message, Request request, bool has_reply);
  void read();
  Reply read_reply(const tcpstore::ServerReply& told) const;
  void cancel();
  void check_over();
  void flush();
  void show_token();
  void dial();

  /// The message that waits for its reply.
  struct Asked {
    tcpstore::Query query = tcpstore::Query::add;
    std::size_t op = 0;  ///< index in records_.ops
    bool cancelled = false;
  };

  const Swarm& swarm_;
  Network& network_;
  Records& records_;
  Random random_;
  client::ProxiedClient client_;
  const std::uint32_t number_;
  LinkRef link_;
  Bytes to_proxy_;
  Bytes from_proxy_;
  std::optional<Asked> asked_;
  Bytes queue_;           ///< whose wait has ended: the next message pops
  bool greeted_ = false;  ///< the ping has its reply
  unsigned left_;
  TimePoint next_;  // local
  TimePoint cut_off_until_;
  std::uint64_t calls_ = 0;                                     ///< requests to the daemon so far
  std::vector<std::pair<std::uint64_t, std::size_t>> unnamed_;  ///< call, index in records_.ops
  std::uint64_t values_ = 0;
};

}  // namespace c10dd::sim
