// SPDX-License-Identifier: Apache-2.0
// A single daemon, which is killed, frozen or stopped, and started again on its state.
#pragma once

#include "tests/torture/daemon.h"
#include "tests/torture/deployment.h"

namespace c10dd::torture {

class OneDaemon final : public Deployment {
 public:
  OneDaemon(const DaemonOptions& options, std::uint64_t seed, Visit visit)
      : daemon_(options), random_(seed), visit_(std::move(visit)) {}

  void start() override;
  std::string addresses() const override { return daemon_.address(); }
  void disturb(Client& client) override;
  void restart(const std::string& when) override;
  void end() override { terminate("at the end"); }

 private:
  bool freeze();
  void terminate(const std::string& when);
  void serve();

  Daemon daemon_;
  sim::Random random_;
  const Visit visit_;
};

}  // namespace c10dd::torture
