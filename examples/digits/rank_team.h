// SPDX-License-Identifier: Apache-2.0
// RankTeam: one rank of a data-parallel job. A ddp::Reducer averages gradients while backward is
// running. The ranks synchronise through the daemon at the end of each epoch and of the training;
// if the daemon is down, they wait for it and nothing fails.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <c10dd/client.h>
#include <c10dd/process_group.h>
#include <c10dd/reducer.h>
#include "examples/digits/network.h"
#include "examples/digits/training.h"

namespace c10dd::digits {

struct TeamOptions {
  std::string backend = "gloo";
  ddp::ReducerOptions reducer = {};
};

/// The ranks of a job with a fixed world size.
class RankTeam final : public Team {
 public:
  /// Blocks until all ranks have opened the process group. The network gets the parameters of rank
  /// 0. The team must be the only owner of the client: its destructor then closes the client, which
  /// ends the calls that are still outstanding.
  RankTeam(std::shared_ptr<Client> client, Rank rank, Rank world_size, Network& network,
           const TeamOptions& options);

  std::size_t rank() const override { return group_->rank(); }
  std::size_t size() const override { return group_->size(); }
  std::span<double* const> gradients() const override { return gradients_; }
  void ready(std::size_t parameter) override { reducer_->mark_ready(parameter); }
  void average() override { reducer_->finish(); }
  void sum(std::span<double> values) override;
  /// Adds the images to a counter of the daemon, and waits at a barrier, both at the same time. If
  /// that takes longer than 0.25 s, prints a line `outstanding` with the calls that wait for the
  /// daemon.
  void end_epoch(std::size_t epoch, std::size_t images) override;

  Client& client() { return *client_; }
  ddp::ReducerStats reducer_stats() const { return reducer_->stats(); }

  /// Blocks until all ranks have finished and the daemon has counted every collective of this rank.
  /// Returns the number of images that all ranks have added.
  std::int64_t finish();

 private:
  void wait_at_barrier(const std::string& name);

  // Declared first, so destroyed last: its destructor waits for a call, which ends at the latest
  // when the client is closed.
  std::future<void> finished_;
  std::shared_ptr<Client> client_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<ddp::Reducer> reducer_;
  std::vector<double*> gradients_;
};

}  // namespace c10dd::digits
