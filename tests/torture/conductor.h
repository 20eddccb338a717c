// SPDX-License-Identifier: Apache-2.0
// The kill loop runs rounds of cycles. In each cycle the deployment is disturbed once under load.
// At the end of a round all calls must have ended, and the replies of all clients are judged.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/sim/random.h"
#include "tests/torture/client_processes.h"
#include "tests/torture/daemon.h"
#include "tests/torture/deployment.h"
#include "tests/torture/judge.h"

namespace c10dd::torture {

struct Settings {
  unsigned cycles = 100;
  unsigned round = 20;  ///< cycles of a round
  unsigned workers = 3;
  unsigned keys = 0;  ///< number of keys that exist during the whole run
  std::uint64_t seed = 0;
  std::string program;  ///< this one
  DaemonOptions daemon;
  unsigned daemons = 1;    ///< if there are several, they share a Redis that this program starts
  unsigned lease = 2;      ///< their --lease, in seconds
  bool redis_tls = false;  ///< they speak TLS with it
};

struct Figures {
  unsigned cycles = 0;
  Disturbances disturbances;
  unsigned processes_killed = 0;
  std::uint64_t calls = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t reissued = 0;
  std::uint64_t watched = 0;
  Verdict verdict;

  bool good() const { return verdict.faults() == 0; }
};

class Conductor {
 public:
  explicit Conductor(const Settings& settings);

  /// Runs until all cycles are over, a fault is found, or `interrupted` is true.
  const Figures& run(const std::atomic<bool>& interrupted);

 private:
  std::unique_ptr<Deployment> deploy();
  void fill();
  void rounds(const std::atomic<bool>& interrupted);
  void begin_round();
  void visit(const std::string& addresses);
  void end_round();
  void end_of_sessions();
  void drain(const std::string& queue);
  void read_state(RoundRecord& record);
  void take_figures(const RoundRecord& record);
  void last_restart(const RoundRecord& record);

  /// Makes a call of this process. Returns false if nothing was found. Throws Hopeless if it
  /// failed.
  template <class Asked, class Ask>
  bool own(const Asked& request, Ask&& ask);
  void fault(Fault fault, const std::string& text);
  std::string prefix() const { return "r" + std::to_string(rounds_) + "/"; }

  const Settings settings_;
  sim::Random random_;
  std::unique_ptr<Deployment> deployment_;
  std::shared_ptr<Client> client_;
  std::unique_ptr<ClientProcesses> client_processes_;
  History history_;  // of this process, in this round
  unsigned rounds_ = 0;
  RoundRecord last_;
  Figures figures_;
};

}  // namespace c10dd::torture
