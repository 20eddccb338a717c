// SPDX-License-Identifier: Apache-2.0
// Which rows process groups leave in the daemon's engine.
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <map>
#include <vector>

#include "client/client.h"
#include "collectives/process_group.h"
#include "store/engine.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

constexpr std::size_t kSize = 3;

/// Opens the world, three groups of the ranks 0 and 1 and a split, calls a collective in each, and
/// closes all.
void use_groups(const std::shared_ptr<Client>& client, const std::string& name) {
  std::vector<float> values = {1.0F};
  const auto world = ProcessGroup::open(
      client, {.rank = static_cast<Rank>(client->rank()), .size = kSize, .name = name},
      {.hostname = "127.0.0.1"});
  world->all_reduce(tensor_of(values));
  for (int i = 0; i < 3 && world->rank() < 2; ++i) {
    const auto pair = world->new_group({0, 1});
    pair->all_reduce(tensor_of(values));
    pair->shutdown();
  }
  const auto half = world->split(world->rank() == 0 ? 0 : 1);
  half->all_reduce(tensor_of(values));
  half->shutdown();
  world->shutdown();
}

/// Counts the rows of all jobs but the directory by their first byte, see ARCHITECTURE.md.
std::map<char, int> rows_in(const std::string& engine) {
  std::map<char, int> counts;
  const auto opened = store::open_engine(engine);
  EXPECT_TRUE(opened) << opened.error().detail;
  for (const JobNumber job : (*opened)->jobs().value()) {
    if (job == 0) continue;
    EXPECT_TRUE((*opened)->load(job, [&](const Row& row) { ++counts[row.key.front()]; }));
  }
  return counts;
}

TEST(GroupOutcomes, AClosedGroupLeavesItsOutcomeWithTheArrivalsAndNothingElse) {
  const TemporaryDirectory directory;
  const std::string engine = "rocksdb:" + directory.path() + "/state";
  test::DaemonProcess daemon(engine);
  daemon.start();
  std::vector<std::shared_ptr<Client>> clients;
  for (std::size_t rank = 0; rank < kSize; ++rank) {
    ClientOptions options;
    options.rank = static_cast<std::int64_t>(rank);
    options.world_size = kSize;
    clients.push_back(Client::connect("c10dd://" + daemon.address() + "/job", options));
  }
  constexpr int kWorlds = 5;
  for (int i = 0; i < kWorlds; ++i) {
    std::vector<std::future<void>> ranks;
    for (const auto& client : clients) {
      ranks.push_back(std::async(std::launch::async, use_groups, client, std::to_string(i)));
    }
    for (auto& rank : ranks) rank.get();
  }
  daemon.stop(SIGKILL);  // the sessions are open: their end would erase the outcomes, too
  std::map<char, int> rows = rows_in(engine);
  EXPECT_EQ(rows['o'], kWorlds * (1 + 3));          // a split asks the daemon for nothing
  EXPECT_EQ(rows['a'], kWorlds * (kSize + 3 * 2));  // the parts of the outcomes
  for (const char part : {'k', 'h', 'w', 'f', 'q', 'c', 'g', 'm', 'l'}) EXPECT_EQ(rows[part], 0);
}

}  // namespace
}  // namespace c10dd
