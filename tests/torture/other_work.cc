// SPDX-License-Identifier: Apache-2.0
// Work with queues, at barriers, and watching.
#include <algorithm>

#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

std::optional<Popped> pop(Desk& desk, const std::string& queue, Store::Timeout timeout) {
  return desk.make(QueuePop{desk.key(queue), timeout}, [&](const QueuePop& r) {
    return Popped{desk.store.queue_pop(r.key, r.timeout)};
  });
}

/// Exchanges "go" or "stop" with the other rank. Returns true if both ranks go on.
bool exchange(Desk& desk, unsigned rank, std::uint64_t round) {
  const std::string number = std::to_string(round);
  const std::string word = number + (desk.stop ? " stop" : " go");
  std::vector<std::string> parts;
  Exchange request;
  request.name = "x" + std::to_string(desk.worker);
  request.sequence = round;
  request.rank = rank;
  request.world_size = 2;
  request.parts = {word};
  request.timeout = kPatience;
  const auto good = desk.make(request, [&](const Exchange& r) {
    ExchangeOptions options;
    options.rank = r.rank;
    options.world_size = r.world_size;
    options.timeout = r.timeout;
    parts = desk.client.exchange(r.name, r.parts, options);
    return Exchanged{};  // this thread looks at the parts itself
  });
  if (!good) return false;
  bool both_go = true;
  for (unsigned of = 0; of < 2; ++of) {
    const std::string part = of < parts.size() ? parts[of] : "nothing";
    const bool told =
        of == rank ? part == word : part == number + " go" || part == number + " stop";
    if (!told) {
      desk.recorder.flaw("exchange " + number + ": rank " + std::to_string(rank) + " got from " +
                         std::to_string(of) + ": " + part);
    }
    both_go = both_go && part == number + " go";
  }
  return both_go;
}

bool wait_at_barrier(Desk& desk, BarrierState& barrier, unsigned rank, std::uint64_t round) {
  Barrier request;
  request.name = "b" + std::to_string(desk.worker);
  request.sequence = round;
  request.rank = rank;
  request.world_size = 2;
  request.timeout = kPatience;
  barrier.arrived[rank] = round;
  const auto good = desk.make(request, [&](const Barrier& r) {
    BarrierOptions options;
    options.rank = r.rank;
    options.world_size = r.world_size;
    options.timeout = r.timeout;
    desk.client.barrier(r.name, options);
    return Done{};
  });
  if (good && barrier.arrived[1 - rank] < round) {
    desk.recorder.flaw("barrier " + std::to_string(round) + " released rank " +
                       std::to_string(rank) + " before the other rank had come");
  }
  return good.has_value();
}

/// Waits until the other rank has set the key, and removes the key.
bool take(Desk& desk, const std::string& key) {
  const auto there = desk.make(Wait{{key}, kPatience}, [&](const Wait& r) {
    desk.store.wait(r.keys, r.timeout);
    return Done{};
  });
  if (!there) return false;
  return desk.make(Remove{key}, [&](const Remove& r) { return Removed{desk.store.remove(r.key)}; })
      .has_value();
}

bool give(Desk& desk, const std::string& key) {
  return desk
      .make(Set{key, desk.unique(), {}, false},
            [&](const Set& r) { return Written{desk.store.set(r.key, r.value, {})}; })
      .has_value();
}

}  // namespace

void push(Desk& desk) {
  while (desk.goes_on()) {
    const std::string queue = desk.random.chance(50) ? "patient" : "impatient";
    desk.make(QueuePush{desk.key(queue), desk.unique()},
              [&](const QueuePush& r) { return Counted{desk.store.queue_push(r.key, r.value)}; });
  }
}

/// Pops with short time-outs. If a pop is given up, the daemon must get back the item it had
/// claimed.
void pop_impatiently(Desk& desk) {
  while (desk.goes_on()) {
    pop(desk, "impatient", std::chrono::milliseconds(desk.random.below(5) * 20));
  }
}

void pop_patiently(Desk& desk) {
  while (!desk.failed) {
    const auto popped = pop(desk, "patient", kPatience);
    if (popped && popped->value.starts_with(kEnd)) return;
  }
}

void meet(Desk& desk, BarrierState& barrier, unsigned rank) {
  const std::string pings = desk.key("ping/" + std::to_string(desk.worker) + "/");
  const std::string pongs = desk.key("pong/" + std::to_string(desk.worker) + "/");
  for (std::uint64_t round = 1;; ++round) {
    const std::string number = std::to_string(round);
    if (!exchange(desk, rank, round)) return;
    if (!wait_at_barrier(desk, barrier, rank, round)) return;
    const std::string ping = pings + number;
    const std::string pong = pongs + number;
    if (!(rank == 0 ? give(desk, ping) : take(desk, ping))) return;
    if (!(rank == 0 ? take(desk, pong) : give(desk, pong))) return;
    std::this_thread::sleep_for(std::chrono::microseconds(desk.random.below(5000)));
  }
}

void watch(Desk& desk) {
  Watch request{desk.key("reg/"), true, desk.place.watch_from, 0, 500ms};
  const std::string last = request.key + kEnd;
  KeyWatch changes = desk.store.watch_prefix(request.key, request.from);
  std::uint64_t give_up = 0;  // the time to give up; 0 until the round is over
  while (!desk.failed) {
    const auto told = desk.make(request, [&](const Watch& r) {
      const WatchBatch batch = changes.next(r.timeout);
      Changes all{{}, batch.next, 0};
      for (const KeyChange& change : batch.changes) {
        all.changes.push_back({change.revision, change.removed, change.key, change.value});
      }
      return all;
    });
    if (told) {
      request.from = told->next;
      const auto& seen = told->changes;
      if (std::ranges::find(seen, last, [](const Change& c) { return c.key.str(); }) != seen.end())
        return;
    }
    if (desk.stop && give_up == 0) give_up = now() + std::uint64_t{kPatience / 1ns};
    if (give_up != 0 && now() > give_up) break;
  }
  desk.recorder.flaw("the watch never showed its last key");
}

}  // namespace c10dd::torture
