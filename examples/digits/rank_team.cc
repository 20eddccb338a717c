// SPDX-License-Identifier: Apache-2.0
// What a rank requests from its process group and from the daemon.
#include "examples/digits/rank_team.h"

#include <chrono>
#include <cstdio>
#include <utility>

namespace c10dd::digits {
namespace {

constexpr const char* kImages = "digits/images";      // counter: images of all ranks and epochs
constexpr const char* kFinished = "digits/finished";  // set by rank 0 at the end
constexpr std::chrono::hours kWholeTraining{24};
constexpr std::chrono::milliseconds kOutstanding{250};

template <typename T>
bool pending(const std::future<T>& call) {
  return call.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

}  // namespace

RankTeam::RankTeam(std::shared_ptr<Client> client, Rank rank, Rank world_size, Network& network,
                   const TeamOptions& options)
    : client_(std::move(client)), store_(client_->store()) {
  // Outstanding during the whole training: also across an outage of the daemon.
  finished_ = std::async(std::launch::async,
                         [store = store_] { store->wait({kFinished}, kWholeTraining); });
  const World world = {.rank = rank, .size = world_size, .name = "digits", .kind = "dp"};
  group_ = ProcessGroup::open(client_, world, {.backend = options.backend});
  std::vector<ddp::Parameter> parameters;
  for (Parameter& parameter : network.parameters()) {
    parameters.push_back({.name = parameter.name,
                          .value = tensor_of(parameter.value.data(), parameter.value.size()),
                          .shape = parameter.shape});
  }
  reducer_ = std::make_unique<ddp::Reducer>(*group_, std::move(parameters), options.reducer);
  for (std::size_t i = 0; i < network.parameters().size(); ++i) {
    gradients_.push_back(static_cast<double*>(reducer_->gradient(i).data));
  }
}

void RankTeam::sum(std::span<double> values) {
  group_->all_reduce(tensor_of(values.data(), values.size()));
}

void RankTeam::end_epoch(std::size_t epoch, std::size_t images) {
  std::future<void> added = std::async(std::launch::async, [store = store_, images] {
    store->add(kImages, static_cast<std::int64_t>(images));
  });
  std::future<void> passed =
      std::async(std::launch::async, [this] { wait_at_barrier("digits/epoch"); });
  if (passed.wait_for(kOutstanding) != std::future_status::ready) {
    std::string calls = "barrier";
    if (pending(added)) calls += ",add";
    if (pending(finished_)) calls += ",wait";
    std::printf("outstanding rank=%zu epoch=%zu calls=%s\n", rank(), epoch, calls.c_str());
  }
  added.get();
  passed.get();
}

std::int64_t RankTeam::finish() {
  wait_at_barrier("digits/finished");  // after it, every rank's add has returned
  if (rank() == 0) store_->set(kFinished, "1");
  finished_.get();
  group_->shutdown();
  client_->flush_report();
  return store_->add(kImages, 0);
}

void RankTeam::wait_at_barrier(const std::string& name) {
  client_->barrier(name, {.rank = group_->rank(), .world_size = group_->size()});
}

}  // namespace c10dd::digits
