// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/conductor.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>

#include "tests/torture/books.h"
#include "tests/torture/fleet.h"
#include "tests/torture/one_daemon.h"
#include "tests/torture/worker.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kFillBatch = 1000;
const std::string kFill = "fill/";

/// Thrown when the run cannot continue. The figures say why.
struct Hopeless {};

}  // namespace

Conductor::Conductor(const Settings& settings)
    : settings_(settings), random_(settings.seed), deployment_(deploy()) {}

std::unique_ptr<Deployment> Conductor::deploy() {
  const Visit visit = [this](const std::string& addresses) { this->visit(addresses); };
  if (settings_.daemons == 1) {
    return std::make_unique<OneDaemon>(settings_.daemon, random_.next(), visit);
  }
  return std::make_unique<Fleet>(
      FleetOptions{settings_.daemon, settings_.daemons, settings_.lease, settings_.redis_tls},
      random_.next(), visit);
}

const Figures& Conductor::run(const std::atomic<bool>& interrupted) {
  try {
    deployment_->start();
    const std::string url = "c10dd://" + deployment_->addresses() + "/" + kJob;
    ClientOptions options;
    options.timeout = kPatience;
    client_ = Client::connect(url, options);
    fill();
    client_processes_ = std::make_unique<ClientProcesses>(ClientProcessOptions{
        settings_.program, url, settings_.daemon.directory, settings_.seed, settings_.workers});
    rounds(interrupted);
    if (figures_.good()) last_restart(last_);
  } catch (const Hopeless&) {
  } catch (const Broken& broken) {
    fault(broken.fault, broken.what());
  }
  figures_.disturbances = deployment_->figures();
  return figures_;
}

void Conductor::fill() {
  for (unsigned key = 0; key < settings_.keys;) {
    std::vector<std::string> keys;
    for (; key < settings_.keys && keys.size() < kFillBatch; ++key) {
      keys.push_back(kFill + std::to_string(key));
    }
    client_->store()->multi_set(keys, std::vector<std::string>(keys.size(), std::string(100, 'v')));
  }
}

void Conductor::rounds(const std::atomic<bool>& interrupted) {
  while (figures_.cycles < settings_.cycles && !interrupted && figures_.good()) {
    begin_round();
    const unsigned end = std::min(settings_.cycles, figures_.cycles + settings_.round);
    const unsigned killing = figures_.cycles + random_.below(end - figures_.cycles);
    for (; figures_.cycles < end && !interrupted; ++figures_.cycles) {
      if (figures_.cycles == killing) {
        client_processes_->kill_one(random_.next());
        ++figures_.processes_killed;
      }
      pause(random_, 20, 400);
      deployment_->disturb(*client_);
    }
    end_round();
  }
}

// ---- rounds ------------------------------------------------------------------------------------

void Conductor::begin_round() {
  ++rounds_;
  history_ = {};
  const auto store = client_->store();
  // From now on the daemon keeps the changes under this prefix for the watches of the workers.
  const KeyWatch watch = store->watch_prefix(prefix() + "reg/");
  MultiSet group{{}, std::vector<Bytes>(kGroup, "nothing")};
  for (unsigned i = 0; i < kGroup; ++i)
    group.keys.push_back(prefix() + "group/" + std::to_string(i));
  own(group, [&](const MultiSet& r) {
    store->multi_set(r.keys, r.values);
    return Written{};  // the store does not say which revision
  });
  store->multi_set({prefix() + "bank/a", prefix() + "bank/b"}, {"0", "0"});
  client_processes_->begin({prefix(), watch.from()});
}

void Conductor::visit(const std::string& addresses) {
  ClientOptions options;
  options.timeout = kStartPatience;
  const auto visitor = Client::connect("c10dd://" + addresses + "/" + kJob, options);
  const auto values = visitor->store()->multi_get({prefix() + "bank/a", prefix() + "bank/b"}, 0s);
  if (std::stoll(values.at(0)) + std::stoll(values.at(1)) != 0) {
    fault(Fault::torn, "after a restart: half of a transfer is there");
  }
}

// ---- the end of a round ------------------------------------------------------------------------

void Conductor::end_round() {
  std::vector<unsigned> late = client_processes_->stop();
  const auto store = client_->store();
  own(Set{prefix() + "reg/" + kEnd, "end", {}, false},
      [&](const Set& r) { return Written{store->set(r.key, r.value, {})}; });
  for (unsigned i = 0; i < settings_.workers; ++i) {
    own(QueuePush{prefix() + "patient", kEnd + std::to_string(i)},
        [&](const QueuePush& r) { return Counted{store->queue_push(r.key, r.value)}; });
  }
  if (late.empty()) late = client_processes_->finish();
  RoundRecord record;
  record.prefix = prefix();
  record.killed = client_processes_->killed();
  if (late.empty()) {
    end_of_sessions();
    drain("patient");
    drain("impatient");
    read_state(record);
  }
  record.histories = client_processes_->histories();
  record.histories[0] = std::move(history_);
  record.ended = now();
  Judge judge(record);
  figures_.verdict.add(late.empty() ? judge.judge() : judge.unanswered());
  for (const unsigned number : late) {
    fault(Fault::failed, "process " + std::to_string(number) + " does not come to an end");
  }
  take_figures(record);
  if (!late.empty()) throw Hopeless();
  if (figures_.verdict.faults() == 0) client_processes_->remove_histories();
  if (figures_.cycles < settings_.cycles && figures_.good()) {
    const std::uint64_t removed = store->remove_prefix(prefix());
    if (removed != record.state.size()) {
      fault(Fault::other, "remove_prefix removed " + std::to_string(removed) + " of " +
                              std::to_string(record.state.size()) + " keys");
    }
  }
  last_ = std::move(record);
}

/// Checks that the keys of living processes exist, and that those of killed ones are removed.
void Conductor::end_of_sessions() {
  const auto living = client_processes_->living();
  const std::uint64_t deadline = now() + std::uint64_t{(kMortalExpiry + 10s) / 1ns};
  const std::string folder = prefix() + "eph/";
  for (;;) {
    const auto keys = client_->store()->list(folder);
    std::size_t of_living = 0;
    for (const std::string& key : keys) {
      of_living += living.count(static_cast<unsigned>(std::stoul(key.substr(folder.size()))));
    }
    if (of_living != living.size()) {
      return fault(Fault::lost, std::to_string(living.size() - of_living) +
                                    " ephemeral keys of living clients have vanished");
    }
    if (keys.size() == of_living) return;
    if (now() > deadline) {
      return fault(Fault::other, "ephemeral keys of killed clients have not vanished: " +
                                     std::to_string(keys.size() - of_living));
    }
    std::this_thread::sleep_for(20ms);
  }
}

void Conductor::drain(const std::string& queue) {
  const QueuePop request{prefix() + queue, {}};
  while (own(request, [&](const QueuePop& r) {
    return Popped{client_->store()->queue_pop(r.key, r.timeout)};
  })) {
  }
}

void Conductor::read_state(RoundRecord& record) {
  const auto store = client_->store();
  for (const std::string& key : store->list(prefix())) record.state[key] = store->entry(key, 0s);
  const std::uint64_t filled = store->count(kFill);
  if (filled < settings_.keys) {
    fault(Fault::lost, std::to_string(settings_.keys - filled) + " keys that were always there");
  }
}

void Conductor::take_figures(const RoundRecord& record) {
  std::uint64_t reissued = client_->stats().reissued;
  for (const auto& [number, history] : record.histories) {
    for (const Op& op : history.ops) {
      ++figures_.calls;
      if (op.reply && (op.good() || found_nothing(op))) ++figures_.acknowledged;
      const bool watches = op.good() && std::holds_alternative<Watch>(op.request);
      if (watches) figures_.watched += op.told<Changes>().changes.size();
    }
    reissued += history.reissued;
  }
  figures_.reissued = std::max(figures_.reissued, reissued);
  std::cerr << "round " << rounds_ << ": " << figures_.cycles << " cycles, " << figures_.calls
            << " calls, " << figures_.verdict.faults() << " faults" << std::endl;
}

/// Restarts the deployment as an operator would, and checks that its state is unchanged.
void Conductor::last_restart(const RoundRecord& record) {
  for (const std::string& bad : client_processes_->quit()) fault(Fault::other, "at its end " + bad);
  const std::string held = held_in_the_end(deployment_->addresses(), figures_.processes_killed);
  if (!held.empty()) {
    fault(Fault::other, "all clients but this one have ended, but " + held);
  }
  for (const char* when : {"after the last round", "and once more"}) {
    deployment_->restart(when);
    RoundRecord again;
    read_state(again);
    for (const auto& [key, entry] : record.state) {
      if (key.starts_with(prefix() + "eph/")) continue;
      const auto found = again.state.find(key);
      if (found == again.state.end() || found->second.value != entry.value ||
          found->second.revision != entry.revision) {
        fault(Fault::lost, key + " is not the same after SIGTERM and a restart");
      }
    }
  }
  client_.reset();
  deployment_->end();
}

// ---- small things ------------------------------------------------------------------------------

template <class Asked, class Ask>
bool Conductor::own(const Asked& request, Ask&& ask) {
  Op op = begin_call(0, request);
  finish_call(op, request, std::forward<Ask>(ask));
  history_.ops.push_back(op);
  if (op.good()) return true;
  if (found_nothing(op)) return false;
  fault(Fault::failed, "the conductor's " + describe(op));
  throw Hopeless();
}

void Conductor::fault(Fault fault, const std::string& text) {
  Verdict one;
  ++one.counts[static_cast<std::size_t>(fault)];
  one.evidence.push_back(std::string(kFaultNames[static_cast<std::size_t>(fault)]) + ": " + text);
  figures_.verdict.add(one);
}

}  // namespace c10dd::torture
