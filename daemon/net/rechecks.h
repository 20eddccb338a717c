// SPDX-License-Identifier: Apache-2.0
// Rechecks: notes when connections must ask again who their clients are, because a credential
// expires or the rules have changed. Thread-safe.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "protocol/types.h"

namespace c10dd::daemon {

/// A connection whose clients have shown credentials.
class Recheckable {
 public:
  virtual ~Recheckable() = default;
  /// Asks again who the clients are. Called on the connection's loop.
  virtual void recheck() = 0;
};

class Rechecks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Lets `connection` recheck after this time, unless it already rechecks sooner. `loop` is the
  /// connection's. Does not keep the connection alive.
  void at(const std::shared_ptr<Recheckable>& connection, boost::asio::any_io_executor loop,
          Time due);
  /// Lets all connections recheck whose time has come. A connection that wants to recheck once more
  /// calls at() again.
  void look(Time now);
  /// Lets all connections recheck.
  void all() { look(Time::max()); }

  std::size_t noted() const;

 private:
  struct Noted {
    std::weak_ptr<Recheckable> connection;
    boost::asio::any_io_executor loop;
    Time due;
  };

  mutable std::mutex mutex_;
  std::unordered_map<const Recheckable*, Noted> noted_;
};

}  // namespace c10dd::daemon
