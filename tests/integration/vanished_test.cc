// SPDX-License-Identifier: Apache-2.0
// A machine that goes without a word, over a link of the kernel's that is set down: no FIN, no RST.
#include <gtest/gtest.h>

#include <future>

#include "client/client.h"
#include "tests/bench/network.h"
#include "tests/integration/daemon_process.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFound = 15s;    // TCP keep-alive: 10 s idle, then unanswered for 5 s
constexpr auto kExpiry = 2s;    // of the session that has no connection any more
constexpr auto kLate = 10s;     // of a busy machine
constexpr auto kInTime = 1min;  // until a watch is given up

TEST(VanishedTest, ASessionWhoseHostIsGoneIsOverThoughNobodyClosedItsConnection) try {
  bench::TwoNetworks networks;
  test::DaemonProcess daemon("memory:");
  daemon.listen_openly_on(std::string(bench::TwoNetworks::kNearAddress) + ":0");
  daemon.start();
  const std::string url = "c10dd://" + daemon.address() + "/job";
  const auto here = Client::connect(url, {});
  KeyWatch watch = here->store()->watch("there");

  // A thread, and the connection that it makes, belong to the network that it has entered.
  const auto far = std::async(std::launch::async, [&] {
                     networks.enter_far();
                     ClientOptions options;
                     options.session_expiry = kExpiry;
                     return Client::connect(url, options);
                   }).get();
  far->store()->set("there", "", {.ephemeral = true});
  ASSERT_EQ(watch.next(kInTime).changes.size(), 1U);

  networks.set_link(false);
  const Clock::time_point gone = Clock::now();
  const auto changes = watch.next(kInTime).changes;
  const Clock::duration took = Clock::now() - gone;
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].key, "there");
  EXPECT_TRUE(changes[0].removed);
  EXPECT_GT(took, kExpiry);
  EXPECT_LT(took, kFound + kExpiry + kLate);
} catch (const bench::Skipped& reason) {
  GTEST_SKIP() << reason.what();
}

}  // namespace
}  // namespace c10dd
