// SPDX-License-Identifier: Apache-2.0
// Daemons on one Redis. The owner of the job is killed, paused beyond its lease, cut off from
// Redis, stopped or forgotten by Redis; then another daemon must serve the job, and the former
// owner must not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/faulty_link.h"
#include "tests/torture/daemon.h"
#include "tests/torture/deployment.h"
#include "tests/torture/loyal_client.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd::torture {

struct FleetOptions {
  DaemonOptions daemon;  ///< its engine is not used
  unsigned daemons = 3;
  unsigned lease = 2;      ///< seconds
  bool redis_tls = false;  ///< the daemons speak TLS with Redis
};

class Fleet final : public Deployment {
 public:
  Fleet(const FleetOptions& options, std::uint64_t seed, Visit visit);

  void start() override;
  std::string addresses() const override;
  void disturb(Client& client) override;
  void restart(const std::string& when) override;
  void end() override;

 private:
  /// A daemon with its own way to Redis.
  struct Instance {
    std::unique_ptr<test::FaultyLink> link;
    std::unique_ptr<Daemon> daemon;
  };
  enum class Trouble : std::uint8_t { kill, pause, cut, lose_replies, terminate };

  Instance& owner(const Client& client);
  void trouble(Client& client);
  void forget();
  void begin(Trouble trouble, Instance& instance);
  void end(Trouble trouble, Instance& instance);
  void hear(Trouble trouble, Instance& instance, LoyalClient& loyal);
  std::pair<Instance*, std::unique_ptr<LoyalClient>> server_of(const std::string& job);
  void terminate(Instance& instance, const std::string& when);
  void wait_until_all_serve();
  bool serves(const Instance& instance) const;
  [[noreturn]] void broken(const Instance& instance, const std::string& text,
                           history::Fault fault = history::Fault::other);

  const FleetOptions options_;
  sim::Random random_;
  const Visit visit_;
  store::RedisServer redis_;
  std::vector<Instance> instances_;
  std::uint64_t probe_ = 0;  ///< value of the key that clients of the former owner ask for
};

}  // namespace c10dd::torture
