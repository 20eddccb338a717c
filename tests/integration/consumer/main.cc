// SPDX-License-Identifier: Apache-2.0
// Uses every installed layer: the store of a daemon, a process group, the reducer.
#include <cstdio>

#include "client/client.h"
#include "collectives/process_group.h"
#include "ddp/reducer.h"

int main(int argc, char** argv) {
  const auto hash = c10dd::make_hash_store();
  hash->add("n", 41);
  std::printf("hash store %s\n", hash->get("n").c_str());
  if (argc > 1) {
    const auto client = c10dd::Client::connect(argv[1]);
    client->store()->set("consumer", "was here");
    std::printf("daemon store %s\n", client->store()->get("consumer").c_str());
  }
  return sizeof(c10dd::ddp::Reducer) > 0 ? 0 : 1;
}
