// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/loop.h"

namespace c10dd::daemon {
namespace {

// After its first handler, a turn runs at most this many further handlers. The number is limited
// because replies are sent only at the end of a turn.
constexpr int kTurnHandlers = 256;

// Looking for a further handler costs a system call if there is none. After a look in vain, this
// many turns do not look, as long as they follow each other within kBusy. The time is short, so
// that deadlines do not fire while the requests that arrived before them wait.
constexpr unsigned kTurnsWithoutLook = 15;
constexpr std::chrono::milliseconds kBusy{1};

}  // namespace

void Loop::run_ready() {
  start_clock();
  run_one();
  const bool busy = now() - std::exchange(last_turn_, now()) < kBusy;
  if (busy && turns_without_look_ > 0) {
    --turns_without_look_;
    return;
  }
  int more = 0;
  while (more < kTurnHandlers && poll_one() > 0) ++more;
  turns_without_look_ = more == 0 ? kTurnsWithoutLook : 0;
}

}  // namespace c10dd::daemon
