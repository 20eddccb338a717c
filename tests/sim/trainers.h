// SPDX-License-Identifier: Apache-2.0
// Processes of stock trainers in a plain run: fleeting sessions on the hosts of a daemon, as its
// connections of a protocol without sessions have them. A producer pushes items, consumers wait and
// pop as two requests, ranks meet at counters, and any of them may lose its connection. The oracle:
// each item is popped once, and never is the queue empty for a consumer whose wait has ended; no
// rank leaves a counter too early; and whatever happens to the engine and the disk, every reply
// comes in the turn in which it can be given, and no row is stored.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/sim/daemon.h"

namespace c10dd::sim {

class Trainers {
 public:
  static constexpr std::string_view kJob = "torch";

  /// `daemon` returns the daemon that listens. `seed` is the only randomness of the trainers.
  Trainers(World& world, std::uint64_t seed, std::function<std::shared_ptr<Daemon>()> daemon)
      : world_(world), random_(seed), daemon_(std::move(daemon)) {}
  ~Trainers();

  /// Starts a launch now, and another one whenever the daemon was replaced.
  void begin();
  /// Stops the producer. check() may be called some seconds later.
  void stop() { stopped_ = true; }
  /// Checks that all items were popped and that all ranks have met, then ends the run.
  void check();

 private:
  enum class Role : std::uint8_t { producer, consumer, rank };
  class Trainer;
  struct Launch;

  void launch();
  static void forget(Launch& launch);
  void add(const std::shared_ptr<Launch>& launch, Role role);
  void act_later(const std::shared_ptr<Trainer>& trainer);
  void act(const std::shared_ptr<Trainer>& trainer);
  void submit(Trainer& trainer, const Request& request);
  void produce(Trainer& trainer);
  void consume(Trainer& trainer);
  void count(Trainer& trainer);
  void lose_connection(const std::shared_ptr<Trainer>& trainer);
  void replied(Trainer& trainer, std::uint64_t sequence, const Reply& reply);
  void violated(const std::string& what) { world_.violated("trainers", what); }

  World& world_;
  Random random_;
  const std::function<std::shared_ptr<Daemon>()> daemon_;
  std::shared_ptr<Launch> launch_;
  std::uint64_t launches_ = 0;
  std::uint64_t sessions_ = 0;
  bool stopped_ = false;
};

}  // namespace c10dd::sim
