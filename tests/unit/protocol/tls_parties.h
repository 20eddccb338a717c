// SPDX-License-Identifier: Apache-2.0
// A CA, the daemons and clients that it knows, and a wire between two channels.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/tls/channel.h"
#include "protocol/tls/context.h"

namespace c10dd::tls {

using namespace std::chrono_literals;

inline const WallTime kNow =
    std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());

struct Ca {
  explicit Ca(const std::string& name = "ca")
      : key(Key::make()), certificate(make_ca({name, {}, kNow, kNow + 10'000h}, key)) {}

  /// Issues the identity of a daemon; the chain has the CA, too.
  Identity daemon(const std::vector<std::string>& hosts = {"head"}, WallTime begins = kNow,
                  WallTime ends = kNow + 1'000h) const {
    const Key own = Key::make();
    auto made = make_server({"daemon", hosts, begins, ends}, own, certificate, key);
    EXPECT_TRUE(made) << made.error().detail;
    return {{*made, certificate}, own};
  }

  Key key;
  Certificate certificate;
};

/// Two channels and the bytes between them, which come in pieces of `piece`.
struct Wire {
  Wire(const Context& caller, const Context& daemon, const std::string& host = "head")
      : client(caller, host), server(daemon) {}

  /// Shakes hands until both are done or one fails. Returns the text of the first failure; empty:
  /// both are open.
  std::string open() {
    for (int turn = 0; turn < 1000; ++turn) {
      const Result<bool> here = client.shake_hands();
      move(client, server);
      if (!here) return here.error().detail;
      const Result<bool> there = server.shake_hands();
      move(server, client);
      if (!there) {
        refused = there.error().detail;
        const Result<bool> told = client.shake_hands();
        return told ? refused : told.error().detail;
      }
      if (*here && *there) return "";
    }
    return "the handshake does not end";
  }

  /// Carries what `from` has to send.
  void move(Channel& from, Channel& to) const {
    while (!from.outgoing().empty()) {
      const std::string_view next = from.outgoing().substr(0, piece);
      to.receive(next);
      from.sent(next.size());
    }
  }
  /// Writes all of a text at `from`, and returns what `to` reads.
  std::string pass(Channel& from, Channel& to, std::string_view text) const {
    std::string got;
    std::string into(5000, '\0');
    while (!text.empty()) {
      const Result<std::size_t> written = from.write(text);
      EXPECT_TRUE(written);
      if (!written) return got;
      text.remove_prefix(*written);
      move(from, to);
      for (Result<std::size_t> count = to.read(into); count && *count > 0; count = to.read(into)) {
        got.append(into, 0, *count);
      }
    }
    return got;
  }

  Channel client;
  Channel server;
  std::string refused = {};  // why the server has refused the client
  std::size_t piece = 100'000;
};

inline Context server_of(const Identity& identity, const std::vector<Certificate>& cas = {}) {
  auto made = Context::server(identity, cas);
  EXPECT_TRUE(made) << made.error().detail;
  return *made;
}
inline Context client_of(const Trust& trust, const Identity* identity = nullptr) {
  auto made = Context::client(trust, identity);
  EXPECT_TRUE(made) << made.error().detail;
  return *made;
}

}  // namespace c10dd::tls
