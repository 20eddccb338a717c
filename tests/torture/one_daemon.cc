// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/one_daemon.h"

#include <signal.h>

#include <thread>

#include "tests/torture/recorder.h"

namespace c10dd::torture {

void pause(sim::Random& random, unsigned least_ms, unsigned most_ms) {
  std::this_thread::sleep_for(
      random.between(std::chrono::milliseconds(least_ms), std::chrono::milliseconds(most_ms)));
}

void OneDaemon::start() {
  daemon_.spawn();
  if (!daemon_.ready(kStartPatience)) {
    throw Broken("the daemon does not start:\n" + daemon_.last_words());
  }
}

void OneDaemon::disturb(Client&) {
  const bool stands_still = random_.chance(10) && freeze();
  if (const auto status = daemon_.ended()) {
    ++figures_.failed_restarts;
    throw Broken("the daemon ended by itself: " + describe_end(*status) + "\n" +
                 daemon_.last_words());
  }
  if (!stands_still && random_.chance(5)) {
    terminate("under load");
    ++figures_.ended_gently;
  } else {
    daemon_.kill();
    ++figures_.killed;
  }
  if (random_.chance(30)) pause(random_, 0, 60);
  for (unsigned again = 0; again < 3 && random_.chance(20); ++again) {
    daemon_.spawn();
    pause(random_, 0, 60);
    daemon_.kill();
    ++figures_.starts_killed;
  }
  serve();
}

/// Stops the daemon for a while, like a machine that is suspended. Returns true if it is still
/// stopped (in half of the cases), so that the daemon is killed in this state.
bool OneDaemon::freeze() {
  daemon_.signal(SIGSTOP);
  pause(random_, 10, 300);
  ++figures_.frozen;
  if (random_.chance(50)) return true;
  daemon_.signal(SIGCONT);
  pause(random_, 0, 50);
  return false;
}

void OneDaemon::terminate(const std::string& when) {
  const auto status = daemon_.terminate(kStartPatience);
  if (status == 0) return;
  throw Broken("SIGTERM " + when + ": " + (status ? describe_end(*status) : "it does not end") +
               "\n" + daemon_.last_words());
}

void OneDaemon::restart(const std::string& when) {
  terminate(when);
  serve();
}

/// Starts the daemon, and makes a first request as a new client.
void OneDaemon::serve() {
  const std::uint64_t start = now();
  daemon_.spawn();
  std::string why;
  if (daemon_.ready(kStartPatience)) {
    try {
      visit_(daemon_.address());
    } catch (const Error& e) {
      why = e.what();
    }
  } else {
    const auto status = daemon_.ended();
    why = status ? describe_end(*status) : "it does not say that it listens";
  }
  figures_.serving_ms["start"].push_back(static_cast<double>(now() - start) * 1e-6);
  if (why.empty()) return;
  ++figures_.failed_restarts;
  throw Broken("the daemon does not serve again: " + why + "\n" + daemon_.last_words());
}

}  // namespace c10dd::torture
