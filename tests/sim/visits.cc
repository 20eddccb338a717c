// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/visits.h"

#include "tests/sim/workload.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;

constexpr unsigned kGuests = 2;  // at a time

}  // namespace

void Visits::begin() {
  for (unsigned i = 0; i < kGuests; ++i) come_later();
}

void Visits::end() {
  over_ = true;
  for (const auto& guest : guests_) {
    judge(*guest);
    guest->client->kill();
  }
}

/// Schedules a guest, often just when another one leaves or when the run is to be retired.
void Visits::come_later() {
  const Duration grace = swarm_.run_grace;
  const Duration slack = milliseconds(50);
  const Duration pause = world_.random.chance(60) ? world_.random.skewed(Duration(0), slack)
                         : world_.random.chance(70)
                             ? world_.random.between(grace - slack, grace + slack)
                             : world_.random.between(Duration(0), 3 * grace);
  world_.after(pause, [this] {
    if (!over_) come();
  });
}

void Visits::come() {
  const auto guest = std::make_shared<Guest>();
  Client::Identity identity{++number_, std::string(kJob), "run"};
  guest->key = std::to_string(identity.number);
  guest->client = std::make_shared<Client>(world_, swarm_, network_, records_, clock_(),
                                           std::move(identity), std::make_shared<Team>(), 0);
  guest->first_op = records_.ops.size();
  const Duration longest = world_.random.chance(50) ? milliseconds(100) : 3 * swarm_.run_grace;
  guest->leaves = world_.now() + world_.random.between(Duration(0), longest);
  guests_.push_back(guest);
  guest->client->start();
  guest->client->ask(Set{guest->key, guest->key, {}, {}});
  stay(guest);
}

void Visits::stay(const std::shared_ptr<Guest>& guest) {
  world_.after(world_.random.between(milliseconds(5), milliseconds(100)), [this, guest] {
    if (over_) return;
    if (!judge(*guest)) return leave(guest);
    if (!guest->client->idle()) return stay(guest);
    if (world_.now() >= guest->leaves) return leave(guest);
    guest->client->ask(Get{guest->key, {}});
    stay(guest);
  });
}

void Visits::leave(const std::shared_ptr<Guest>& guest) {
  std::erase(guests_, guest);
  gone_.push_back(guest->client);
  guest->client->leave();
  world_.after(world_.random.between(milliseconds(20), milliseconds(500)),
               [client = guest->client] { client->kill(); });
  come_later();
}

/// Judges the reads of a guest. Returns false if the guest has to stop.
bool Visits::judge(const Guest& guest) {
  for (std::size_t i = guest.first_op; i < records_.ops.size(); ++i) {
    const Op& op = records_.ops[i];
    if (op.client != guest.client->identity().number || op.answered == 0) continue;
    if (op.code() == Code::timed_out) return false;  // the disk or the network was slow
    // A session without a row is unknown after a restart: the run may have been retired.
    if (i == guest.first_op && op.code() == Code::state_rolled_back) return false;
    const auto* value = op.good() ? std::get_if<Value>(&**op.reply) : nullptr;
    const bool wrong = value != nullptr && value->value != guest.key;
    if (!op.good() || wrong) world_.violated("visits", describe(op) + ": the run was not kept");
  }
  return true;
}

}  // namespace c10dd::sim
