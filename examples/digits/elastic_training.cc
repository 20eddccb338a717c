// SPDX-License-Identifier: Apache-2.0
// The body of ddp::run_elastic(): trains in one generation, from the step that all members have.
#include "examples/digits/elastic_training.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

#include <c10dd/elastic.h>

namespace c10dd::digits {
namespace {

/// The members of one generation.
class GenerationTeam final : public Team {
 public:
  GenerationTeam(ProcessGroup& group, Network& network, const ddp::ReducerOptions& options)
      : group_(group) {
    std::vector<ddp::Parameter> parameters;
    for (Parameter& parameter : network.parameters()) {
      parameters.push_back({.name = parameter.name,
                            .value = tensor_of(parameter.value.data(), parameter.value.size()),
                            .shape = parameter.shape});
    }
    reducer_ = std::make_unique<ddp::Reducer>(group, std::move(parameters), options);
    for (std::size_t i = 0; i < network.parameters().size(); ++i) {
      gradients_.push_back(static_cast<double*>(reducer_->gradient(i).data));
    }
  }

  std::size_t rank() const override { return group_.rank(); }
  std::size_t size() const override { return group_.size(); }
  std::span<double* const> gradients() const override { return gradients_; }
  void ready(std::size_t parameter) override { reducer_->mark_ready(parameter); }
  void average() override { reducer_->finish(); }
  void sum(std::span<double> values) override {
    group_.all_reduce(tensor_of(values.data(), values.size()));
  }
  void end_epoch(std::size_t, std::size_t) override {}

 private:
  ProcessGroup& group_;
  std::unique_ptr<ddp::Reducer> reducer_;
  std::vector<double*> gradients_;
};

}  // namespace

ElasticOutcome train_elastic(const std::shared_ptr<Client>& client,
                             const RendezvousOptions& rendezvous, const std::string& backend,
                             const ddp::ReducerOptions& reducer, Network& network,
                             const Split& data, const TrainingOptions& options) {
  ElasticOutcome outcome;
  ddp::ElasticState state;
  for (Parameter& parameter : network.parameters()) {
    state.tensors.push_back(tensor_of(parameter.value.data(), parameter.value.size()));
  }
  for (std::vector<double>& velocity : network.velocities()) {
    state.tensors.push_back(tensor_of(velocity.data(), velocity.size()));
  }
  ddp::ReducerOptions same = reducer;
  same.broadcast_parameters = false;  // run_elastic has made them equal
  const auto train = [&](ddp::ElasticContext& context) {
    ++outcome.generations;
    outcome.rank = context.generation.rank;
    std::printf("generation rank=%u number=%" PRIu64 " size=%u step=%" PRIu64 " reason=\"%s\"\n",
                context.generation.rank, context.generation.number, context.generation.size,
                state.step, context.generation.reason.c_str());
    GenerationTeam team(context.group, network, same);
    Trainer trainer(network, data, options, team);
    const std::size_t steps = trainer.steps_per_epoch();
    while (state.step < options.epochs * steps) {
      const std::size_t epoch = state.step / steps + 1;
      const std::size_t index = state.step % steps;
      if (index == 0 && context.should_regroup()) return false;  // new members join between epochs
      context.membership.progress("train", state.step, std::chrono::seconds(30));
      trainer.step(epoch, index);
      ++state.step;
      // The end of the last epoch comes after the loop: a member that gets the state of the last
      // step from another one runs no step, but must take part in its collectives.
      const bool last = state.step == options.epochs * steps;
      if (index + 1 == steps && !last) outcome.epochs.push_back(trainer.end_epoch(epoch));
    }
    outcome.epochs.push_back(trainer.end_epoch(options.epochs));
    return true;
  };
  const auto membership = client->rendezvous(rendezvous);
  ddp::run_elastic(membership, state, train, {.group = {.backend = backend}});
  return outcome;
}

}  // namespace c10dd::digits
