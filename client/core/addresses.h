// SPDX-License-Identifier: Apache-2.0
// The addresses of the daemons that a client knows, and which one it tries next. The caller of the
// SDK gives some addresses; these stay known for ever. Each Welcome names the daemons that share
// the engine, in place of those of the Welcome before. A redirect names the owner of the job.
//
// A client tries each known address once; this is a round. The caller waits before the next round,
// not within a round. Pure: no clock; equal calls give equal results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/types.h"

namespace c10dd::client {

class Addresses {
 public:
  /// How long a daemon may be silent if another address is known. Doubled, up to kPatienceMax,
  /// after each round in which a daemon was slow, so that a client gets a session with slow
  /// daemons, too.
  static constexpr Duration kPatience = std::chrono::seconds(1);
  static constexpr Duration kPatienceMax = std::chrono::seconds(16);
  static constexpr unsigned kQuickRedirects = 4;       // in a row, followed at once
  static constexpr std::size_t kRedirectTargets = 16;  // of one redirect

  /// `given` has at least one address. `seed` chooses the one that is tried first.
  Addresses(std::vector<std::string> given, std::uint64_t seed);

  /// Returns the address to connect to, or of the daemon that the client is connected to.
  const std::string& current() const { return current_; }
  /// Returns whether an address is known beside current().
  bool several() const;
  /// Returns how long to wait for a sign of life from current(): `most` if no other address is
  /// known.
  Duration patience(Duration most) const;

  // What has happened at current(). `why` is a text for users.

  /// A connection was made. If its peer is on another machine, the loopback addresses that the
  /// daemon there names are ignored until the next connection: they belong to that machine.
  void connected(bool other_machine) { other_machine_ = other_machine; }
  /// Returns the first of these addresses that is ignored for this reason; empty if there is none.
  std::string ignored(const std::vector<std::string>& targets) const;
  /// The client tries this address again.
  void stay(std::string why);
  /// Chooses the next address. Returns whether this round goes on: if not, the caller must wait
  /// before it connects. `slow` means that the daemon did not reply or could not serve in time.
  bool leave(std::string why, bool slow = false);
  /// The daemon named the owner of the job. Chooses the first of `targets`; the others follow if
  /// the first fails. Ignores targets that are not addresses. Returns false without a change if no
  /// target is left.
  bool redirect(const std::string& why, const std::vector<std::string>& targets);
  /// Returns whether the caller may follow the last redirect at once. False after kQuickRedirects
  /// redirects without served() in between, so that daemons that name each other cause no load.
  bool quick() const { return redirects_ <= kQuickRedirects; }
  /// Returns whether a daemon has named the owner since served().
  bool redirected() const { return redirects_ > 0; }
  /// A session was opened, and a round ends. `fleet` has the addresses of all daemons.
  void welcome(const std::vector<std::string>& fleet);
  /// The daemon has replied to a heartbeat or to a call.
  void served() { redirects_ = 0; }

  /// Returns a text for users: which daemons the client has tried since its last session, and why
  /// it has no session. `away` is the time since then. The reason for current() is `why`, which
  /// stands alone if the client has tried one address only. `denied`: the daemon there does not let
  /// this client in.
  std::string absence(Duration away, const std::string& why, bool denied = false) const;

 private:
  struct Known {
    std::string address;
    std::string why = {};  ///< outcome of the last attempt; empty if there was none
    bool tried = false;    ///< in this round
  };

  Known* find(const std::string& address);
  void note(std::string why, bool tried);
  void go(std::string address);
  std::vector<std::string> usable(std::span<const std::string> addresses, std::size_t most) const;

  std::vector<Known> known_;   // the given addresses first
  std::size_t given_ = 0;      // number of given addresses
  std::size_t at_ = 0;         // index of the newest current() that is in known_
  std::vector<Known> others_;  // targets of redirects that are not in known_
  std::string current_;
  std::vector<std::string> targets_;  // of the last redirect, which were not tried yet
  std::vector<std::string> path_;     // of the last redirects in a row
  unsigned redirects_ = 0;            // since served()
  bool other_machine_ = false;        // see connected()
  std::string slow_;                  // the address that was last left because it was slow
  bool patient_ = false;              // a daemon was slow in this round
  Duration patience_ = kPatience;
};

}  // namespace c10dd::client
