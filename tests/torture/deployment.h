// SPDX-License-Identifier: Apache-2.0
// What the kill loop disturbs: one daemon, or a fleet of daemons on one Redis.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/history/found_fault.h"
#include "tests/sim/random.h"

namespace c10dd::torture {

/// Job of all clients of the kill loop.
inline constexpr const char* kJob = "torture";

/// A fault that ends the run.
struct Broken : std::runtime_error {
  explicit Broken(const std::string& text, history::Fault kind = history::Fault::other)
      : std::runtime_error(text), fault(kind) {}
  history::Fault fault;
};

/// Counts what a deployment has gone through.
struct Disturbances {
  unsigned killed = 0;         ///< by SIGKILL, under load
  unsigned starts_killed = 0;  ///< starts that were killed before the daemon listened
  unsigned frozen = 0;         ///< by SIGSTOP
  unsigned ended_gently = 0;   ///< by SIGTERM, under load
  unsigned links_cut = 0;      ///< connections of one daemon to Redis
  unsigned forgotten = 0;      ///< daemons whose row in the fleet was removed
  unsigned takeovers = 0;      ///< after which another daemon served the job
  unsigned deposed_asked = 0;  ///< requests that a daemon got after another one served the job
  unsigned failed_restarts = 0;
  /// From the fault, or the start, to the next reply to a client, by the name of the fault.
  std::map<std::string, std::vector<double>> serving_ms;
};

class Deployment {
 public:
  virtual ~Deployment() = default;

  /// Starts it for the first time. Throws Broken if it does not serve.
  virtual void start() = 0;
  /// Addresses for the URL of clients.
  virtual std::string addresses() const = 0;
  /// Disturbs it once, and returns when it serves again. `client` is a client of all addresses.
  /// Throws Broken if the deployment does not serve again, or if it does what it must not do.
  virtual void disturb(Client& client) = 0;
  /// Ends it as an operator would, and starts it again. Throws Broken as above.
  virtual void restart(const std::string& when) = 0;
  /// Ends it as an operator would. Throws Broken if it does not end well.
  virtual void end() = 0;

  const Disturbances& figures() const { return figures_; }

 protected:
  Disturbances figures_;
};

/// Makes a first request as a new client of these addresses. Throws Error if it fails.
using Visit = std::function<void(const std::string& addresses)>;

/// Sleeps for a random time.
void pause(sim::Random& random, unsigned least_ms, unsigned most_ms);

}  // namespace c10dd::torture
