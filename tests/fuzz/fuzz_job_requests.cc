// SPDX-License-Identifier: Apache-2.0
// Any requests of a few sessions to one job, with lost connections, repeats, time and restarts.
#include "tests/fuzz/job_world.h"
#include "tests/fuzz/target.h"

C10DD_FUZZ(job_requests) {
  c10dd::fuzz::Input in(data, size);
  c10dd::fuzz::JobWorld world(in);
  while (!in.empty()) world.step();
  world.finish();
  return 0;
}
