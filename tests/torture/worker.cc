// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/worker.h"

#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

/// One round: its threads.
class Round {
 public:
  Round(const WorkerOptions& options, Place place, const std::string& path)
      : options_(options), place_(std::move(place)), recorder_(path, options.number) {}

  /// Adds a thread. finish() ends it if `patient`, otherwise stop() does.
  void add(Client& client, std::function<void(Desk&)> work, bool patient = false) {
    const auto thread = static_cast<unsigned>(impatient_.size() + patient_.size());
    (patient ? patient_ : impatient_).emplace_back([this, &client, thread, work = std::move(work)] {
      const auto store = client.store();
      const std::uint64_t seed = options_.seed * 1000 + thread;
      Desk desk{client,          *store, recorder_,         place_,
                options_.number, thread, sim::Random(seed), stop_};
      work(desk);
    });
  }

  void stop() {
    stop_ = true;
    impatient_.clear();
  }
  void finish() { patient_.clear(); }

  const Place& place() const { return place_; }
  Recorder& recorder() { return recorder_; }
  BarrierState& barrier() { return barrier_; }

 private:
  const WorkerOptions& options_;
  const Place place_;
  Recorder recorder_;
  BarrierState barrier_;
  std::atomic<bool> stop_ = false;
  std::vector<std::jthread> impatient_;
  std::vector<std::jthread> patient_;
};

class Worker {
 public:
  explicit Worker(WorkerOptions options)
      : options_(std::move(options)),
        clients_{connect({}), connect({})},
        mortal_(connect(kMortalExpiry)) {}

  void begin(Place place, const std::string& path) {
    options_.seed += 1;
    round_.emplace(options_, std::move(place), path);
    Client& a = *clients_[0];
    Client& b = *clients_[1];
    round_->add(b, watch, true);
    round_->add(*mortal_, pop_patiently, true);
    const std::string own = "eph/" + std::to_string(options_.number);
    round_->recorder().make(Set{round_->place().prefix + own, "alive", {}, true},
                            [&](const Set& r) {
                              SetOptions ephemeral;
                              ephemeral.ephemeral = r.ephemeral;
                              return Written{mortal_->store()->set(r.key, r.value, ephemeral)};
                            });
    round_->add(*mortal_, pop_impatiently);
    for (const auto& work : {keep_registers, count, push, use_any_key}) round_->add(a, work);
    for (const auto& work : {write_logs, extend_chain, set_groups, transfer, use_any_key}) {
      round_->add(b, work);
    }
    round_->add(a, [this](Desk& desk) { meet(desk, round_->barrier(), 0); });
    round_->add(b, [this](Desk& desk) { meet(desk, round_->barrier(), 1); });
  }

  void stop() { round_->stop(); }

  void finish() {
    round_->finish();
    std::uint64_t reissued = 0;
    std::uint64_t lost = 0;
    for (const auto& client : {clients_[0], clients_[1], mortal_}) {
      reissued += client->stats().reissued;
      lost += client->stats().sessions_lost;
    }
    round_->recorder().totals(reissued, lost);
    round_.reset();
  }

 private:
  std::shared_ptr<Client> connect(std::chrono::nanoseconds expiry) {
    ClientOptions options;
    options.timeout = kPatience;
    options.session_expiry = expiry;
    return Client::connect(options_.url, options);
  }

  WorkerOptions options_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::shared_ptr<Client> mortal_;
  std::optional<Round> round_;
};

}  // namespace

int run_worker(const WorkerOptions& options) {
  Worker worker(options);
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    Place place;
    std::string path;
    words >> command;
    if (command == "begin") {
      words >> place.prefix >> place.watch_from >> path;
      worker.begin(std::move(place), path);
    } else if (command == "stop") {
      worker.stop();
    } else if (command == "finish") {
      worker.finish();
    } else {
      break;
    }
    std::cout << command << std::endl;
  }
  return 0;
}

}  // namespace c10dd::torture
