// SPDX-License-Identifier: Apache-2.0
// Work with queues, at meetings, and watching.
#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

void pop(Desk& desk, Call& call, Store::Timeout timeout) {
  desk.make(call, [&](Call& c) {
    try {
      c.value = desk.store.queue_pop(c.key, timeout);
      c.yes = true;
    } catch (const NotFound&) {
    } catch (const TimedOut&) {
      if (timeout >= kPatience) throw;
    }
  });
}

/// Whether both go on: each brings its word, both get both.
bool exchange(Desk& desk, unsigned rank, std::uint64_t round) {
  const std::string number = std::to_string(round);
  Call call = call_of(What::meet, "exchange", number + (desk.stop ? " stop" : " go"));
  std::vector<std::string> parts;
  const bool good = desk.make(call, [&](Call& c) {
    ExchangeOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.timeout = kPatience;
    parts = desk.client.exchange("x" + std::to_string(desk.worker), {c.input}, options);
  });
  if (!good) return false;
  bool both_go = true;
  for (unsigned of = 0; of < 2; ++of) {
    const std::string part = of < parts.size() ? parts[of] : "nothing";
    const bool told =
        of == rank ? part == call.input : part == number + " go" || part == number + " stop";
    if (!told) {
      desk.recorder.flaw("exchange " + number + ": rank " + std::to_string(rank) + " got from " +
                         std::to_string(of) + ": " + part);
    }
    both_go = both_go && part == number + " go";
  }
  return both_go;
}

bool barrier(Desk& desk, Meeting& meeting, unsigned rank, std::uint64_t round) {
  Call call = call_of(What::meet, "barrier", std::to_string(round));
  meeting.arrived[rank] = round;
  const bool good = desk.make(call, [&](Call&) {
    BarrierOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.timeout = kPatience;
    desk.client.barrier("b" + std::to_string(desk.worker), options);
  });
  if (good && meeting.arrived[1 - rank] < round) {
    desk.recorder.flaw("barrier " + std::to_string(round) + " released rank " +
                       std::to_string(rank) + " before the other rank had come");
  }
  return good;
}

/// Waits for what the other rank sets, and removes it.
bool take(Desk& desk, const std::string& key) {
  Call call = call_of(What::exists, key);
  const bool there = desk.make(call, [&](Call& c) {
    desk.store.wait({c.key}, kPatience);
    c.yes = true;
  });
  if (!there) return false;
  Call gone = call_of(What::remove, key);
  return desk.make(gone, [&](Call& c) { c.yes = desk.store.remove(c.key); });
}

bool give(Desk& desk, const std::string& key) {
  Call call = call_of(What::set, key, desk.unique());
  return desk.make(call, [&](Call& c) { c.revision = desk.store.set(c.key, c.input, {}); });
}

}  // namespace

void push(Desk& desk) {
  while (desk.goes_on()) {
    const std::string queue = desk.random.chance(50) ? "patient" : "impatient";
    Call call = call_of(What::push, desk.key(queue), desk.unique());
    desk.make(call, [&](Call& c) { desk.store.queue_push(c.key, c.input); });
  }
}

/// Pops that are given up before the daemon answers: it gets back what they had claimed.
void pop_impatiently(Desk& desk) {
  while (desk.goes_on()) {
    Call call = call_of(What::pop, desk.key("impatient"));
    pop(desk, call, std::chrono::milliseconds(desk.random.below(5) * 20));
  }
}

void pop_patiently(Desk& desk) {
  while (!desk.failed) {
    Call call = call_of(What::pop, desk.key("patient"));
    pop(desk, call, kPatience);
    if (call.value == kEnd) return;
  }
}

void meet(Desk& desk, Meeting& meeting, unsigned rank) {
  const std::string pings = desk.key("ping/" + std::to_string(desk.worker) + "/");
  const std::string pongs = desk.key("pong/" + std::to_string(desk.worker) + "/");
  for (std::uint64_t round = 1;; ++round) {
    const std::string number = std::to_string(round);
    if (!exchange(desk, rank, round)) return;
    if (!barrier(desk, meeting, rank, round)) return;
    const std::string ping = pings + number;
    const std::string pong = pongs + number;
    if (!(rank == 0 ? give(desk, ping) : take(desk, ping))) return;
    if (!(rank == 0 ? take(desk, pong) : give(desk, pong))) return;
    std::this_thread::sleep_for(std::chrono::microseconds(desk.random.below(5000)));
  }
}

void watch(Desk& desk) {
  const std::string prefix = desk.key("reg/");
  std::uint64_t give_up = 0;  // when, once the round is over
  try {
    KeyWatch changes = desk.store.watch_prefix(prefix, desk.place.watch_from);
    for (;;) {
      WatchBatch batch;
      try {
        batch = changes.next(500ms);
      } catch (const TimedOut&) {  // the daemon is away
      }
      for (const KeyChange& change : batch.changes) {
        desk.recorder.saw({desk.worker, change.revision, change.key, change.value});
        if (change.key == prefix + kEnd) return;
      }
      if (desk.stop && give_up == 0) give_up = now() + std::uint64_t{kPatience / 1ns};
      if (give_up != 0 && now() > give_up) break;
    }
    desk.recorder.flaw("the watch never showed its last key");
  } catch (const Error& e) {
    desk.recorder.flaw("the watch failed: " + std::string(name_of(e.code())) + ": " + e.what());
  }
}

}  // namespace c10dd::torture
