// SPDX-License-Identifier: Apache-2.0
// The requests that a connection sends by itself from time to time, while there is a session.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "client/core/core.h"

namespace c10dd::client {

/// Functions that a connection calls on its thread, without its mutex. They must not call the
/// connection, and must return soon: meanwhile the thread does nothing else.
struct Periodic {
  /// How often `request` is called while there is a session. Not called while the last request has
  /// no reply.
  Duration period;
  /// Returns the request to send, if any. `again` is true at the first call after each connect,
  /// because the daemon may have lost the earlier requests.
  std::function<std::optional<Request>(bool again)> request;
  /// Called once with the reply to each request, or its failure. May be empty.
  std::function<void(const Reply&)> replied = {};
  /// If it returns false, `request` is not called, and the thread does not wake up for it. It is
  /// called often, under the connection's mutex. After it has become true, `request` is called when
  /// the thread next wakes up, at the latest for a heartbeat. Empty: always true.
  std::function<bool()> wanted = {};
};

/// Calls the functions of all Periodics when they are due. The connection's mutex guards it.
class Periodics {
 public:
  explicit Periodics(std::vector<Periodic> all);

  /// Returns when to call run() while there is a session, unless a reply comes before.
  TimePoint due() const;

  /// Takes the reply to a call of the core, if it was made here. Returns whether run() has to pass
  /// it on.
  bool take(const Completion& done);

  /// Calls what is due, for which it unlocks the mutex, and starts the calls of the core that this
  /// asks for. If `closing`, asks for none.
  void run(std::unique_lock<std::mutex>& lock, Core& core, bool closing);

 private:
  struct Entry {
    Periodic does;
    TimePoint next = {};
    std::uint64_t connects = 0;              // CoreStats::connects at the last request
    std::optional<std::uint64_t> call = {};  // that has no reply yet
    std::optional<Reply> reply = {};         // to pass on; only without `call`
  };

  std::vector<Entry> all_;
};

}  // namespace c10dd::client
