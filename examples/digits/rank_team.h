// SPDX-License-Identifier: Apache-2.0
// A rank of a data-parallel job. Gradients are averaged by a ddp::Reducer while backward goes on;
// the ends of epochs and of the training are kept through the daemon, whose death in between holds
// them up and fails nothing.
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

class RankTeam final : public Team {
 public:
  /// Blocks until all ranks are here. The network gets rank 0's parameters. The team must be the
  /// client's only owner, so that its end ends what the client has under way.
  RankTeam(std::shared_ptr<Client> client, Rank rank, Rank world_size, Network& network,
           const TeamOptions& options);

  std::size_t rank() const override { return group_->rank(); }
  std::size_t size() const override { return group_->size(); }
  std::span<double* const> gradients() const override { return gradients_; }
  void ready(std::size_t parameter) override { reducer_->mark_ready(parameter); }
  void average() override { reducer_->finish(); }
  void sum(std::span<double> values) override;
  /// A counter `add` and a barrier at the same time. Prints a line `outstanding` when they are held
  /// up, with the names of the calls that wait for the daemon.
  void end_epoch(std::size_t epoch, std::size_t images) override;

  Client& client() { return *client_; }
  ddp::ReducerStats reducer_stats() const { return reducer_->stats(); }

  /// Returns when all ranks have finished and the daemon knows every collective of this one; the
  /// images that all ranks have counted.
  std::int64_t finish();

 private:
  void meet(const std::string& name);

  // First, so destroyed last: closing the client is what ends the call in an unfinished training.
  std::future<void> finished_;
  std::shared_ptr<Client> client_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<ddp::Reducer> reducer_;
  std::vector<double*> gradients_;
};

}  // namespace c10dd::digits
