// SPDX-License-Identifier: Apache-2.0
// Scenario takeover. Clients of the SDK, each with a connection and a session of its own, are
// served by one of several daemons on one Redis. That daemon is killed (SIGKILL). Measured from the
// kill until each client is connected to another daemon, with the session that it had. Then each
// must read what it has written. The lease is the daemons' default, 2 s.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "client/client.h"
#include "client/store.h"
#include "tests/bench/crowd.h"
#include "tests/bench/fleet_servers.h"
#include "tests/bench/scenarios.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kClients = 1'000;
constexpr unsigned kDaemons = 2;
constexpr unsigned kCallers = 64;  // threads that call clients

/// The clients of one round.
class Clients {
 public:
  Clients(const std::string& url, unsigned count) : clients_(count), connected_(count) {
    call_each([&](unsigned n) {
      ClientOptions options;
      options.on_connection = [this, n](const ConnectionChange& change) {
        if (change.connected) connected_[n] = Clock::now().time_since_epoch().count();
      };
      clients_[n] = Client::connect(url, options);
      clients_[n]->store()->set(key(n), std::to_string(n));
    });
  }

  std::string address() const { return clients_.front()->address(); }

  /// Waits until each client has connected after `start`; how long that took.
  Histogram await(Clock::time_point start) const {
    const auto begun = start.time_since_epoch().count();
    Histogram took;
    for (const auto& connected : connected_) {
      while (connected <= begun) {
        throw_if_interrupted();
        if (Clock::now() > start + kPatience) {
          throw std::runtime_error("takeover: a client did not find another daemon");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      took.add(connected - begun);
    }
    return took;
  }

  /// Throws unless each client has its session, and reads its key.
  void must_be_whole() {
    std::atomic<unsigned> wrong = 0;
    call_each([&](unsigned n) {
      const bool good = clients_[n]->store()->get(key(n)) == std::to_string(n);
      if (!good || clients_[n]->stats().sessions_lost > 0) ++wrong;
    });
    if (wrong > 0) {
      throw std::runtime_error("takeover: " + std::to_string(wrong) +
                               " clients have lost a key or their session");
    }
  }

 private:
  static std::string key(unsigned n) { return "client-" + std::to_string(n); }

  /// Calls f(n) for all clients, on several threads. Throws what one of them has thrown.
  void call_each(const std::function<void(unsigned)>& f) {
    std::atomic<unsigned> next = 0;
    std::mutex mutex;
    std::exception_ptr failed;
    {
      std::vector<std::jthread> callers;
      for (unsigned i = 0; i < kCallers; ++i) {
        callers.emplace_back([&] {
          try {
            for (unsigned n = next++; n < clients_.size(); n = next++) f(n);
          } catch (...) {
            const std::lock_guard lock(mutex);
            failed = std::current_exception();
            next = static_cast<unsigned>(clients_.size());
          }
        });
      }
    }
    if (failed) std::rethrow_exception(failed);
  }

  std::vector<std::shared_ptr<Client>> clients_;
  std::vector<std::atomic<Clock::rep>> connected_;  ///< when each client has connected last
};

}  // namespace

ScenarioResult run_takeover(const Options& options) {
  const unsigned count = options.connections.value_or(kClients);
  const unsigned daemons = options.daemons.value_or(kDaemons);
  if (options.daemon || !options.engine.empty()) {
    throw std::runtime_error(
        "takeover kills a daemon that it starts, on a Redis that it starts: leave out "
        "--daemon and --engine");
  }
  check_file_limit("takeover", 2 * count);  // each client has a descriptor that wakes its thread
  ::setenv("C10DD_LOG", "off", 1);          // each client would say that it has no daemon
  ScenarioResult result;
  result.name = "takeover";
  result.counted = "clients";
  result.parameters = {{"clients", count}, {"daemons", daemons}, {"awake", options.awake}};
  result.series = {
      {"served", "SIGKILL of the owner to each client's session at another daemon", {}}};
  for (unsigned round = 0; round < options.rounds; ++round) {
    FleetServers fleet(daemons);
    std::string url = "c10dd://";
    for (const Address& address : fleet.addresses()) {
      url += (url.ends_with('/') ? "" : ",") + address.host + ":" + std::to_string(address.port);
    }
    Clients clients(url + "/bench", count);
    const std::string owner = clients.address();
    const Clock::time_point start = Clock::now();
    fleet.kill(static_cast<std::uint16_t>(std::stoi(owner.substr(owner.rfind(':') + 1))));
    const Histogram served = clients.await(start);
    result.series[0].rounds.push_back(
        sample_of(served, std::chrono::duration<double>(Clock::now() - start).count()));
    clients.must_be_whole();
  }
  return result;
}

}  // namespace c10dd::bench
