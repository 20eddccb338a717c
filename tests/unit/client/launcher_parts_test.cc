// SPDX-License-Identifier: Apache-2.0
// Tests the parts of c10drun that touch processes, threads and addresses: the orphan_killer, calls
// in the background, the address that a node names.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/internal/local_address.h"
#include "client/launcher/address.h"
#include "client/launcher/background.h"
#include "client/launcher/orphan_killer.h"
#include "protocol/address.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using test::comes_true;

// ---- orphan killer ---------------------------------------------------------------------------

/// Starts a process in a group of its own, which lives until it is killed.
pid_t start_group() {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    for (;;) pause();
  }
  setpgid(child, child);
  return child;
}

/// Returns by which signal a child has ended; 0 if it lives for the whole patience.
int signal_of(pid_t child) {
  int status = 0;
  const bool ended = comes_true([&] { return waitpid(child, &status, WNOHANG) == child; });
  return ended && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// A launcher with an orphan killer that watches two groups and forgets one of them. `ends` is
/// called in the launcher's process.
void expect_orphan_killer_cleans_up(void (*ends)()) {
  const TemporaryDirectory home;
  const std::string folder = home.path() + "/scratch";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/log") << "text";
  const pid_t first = start_group();
  const pid_t second = start_group();
  const pid_t forgotten = start_group();
  const pid_t launcher = fork();
  if (launcher == 0) {
    OrphanKiller orphan_killer(folder);
    for (const pid_t group : {first, forgotten, second}) orphan_killer.watch(group);
    orphan_killer.forget(forgotten);
    ends();
    _exit(0);
  }
  EXPECT_EQ(signal_of(first), SIGKILL);
  EXPECT_EQ(signal_of(second), SIGKILL);
  EXPECT_TRUE(comes_true([&] { return !std::filesystem::exists(folder); }));
  EXPECT_EQ(waitpid(forgotten, nullptr, WNOHANG), 0) << "it lives";
  kill(forgotten, SIGKILL);
  EXPECT_EQ(signal_of(forgotten), SIGKILL);
  EXPECT_EQ(waitpid(launcher, nullptr, 0), launcher);
}

TEST(OrphanKiller, KillsTheGroupsThatItWatchesWhenTheLauncherIsKilled) {
  expect_orphan_killer_cleans_up([] { kill(getpid(), SIGKILL); });
}

TEST(OrphanKiller, CleansUpAfterALauncherThatForgetsTo) {
  expect_orphan_killer_cleans_up([] { _exit(1); });
}

TEST(OrphanKiller, SignalsOfATerminalDoNotEndIt) {
  expect_orphan_killer_cleans_up([] {
    signal(SIGINT, SIG_IGN);
    kill(0, SIGCONT);  // to the group of the launcher, which the orphan killer has left
    kill(getpid(), SIGKILL);
  });
}

// ---- background --------------------------------------------------------------------------------

class BackgroundTest : public testing::Test {
 protected:
  void TearDown() override {
    while (!background_.idle()) loop_.run_one();
  }

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  Background background_{loop_};
};

TEST_F(BackgroundTest, ReturnsTheValueAndThrowsTheException) {
  const auto never = [] { return false; };
  EXPECT_EQ(background_.run([] { return 7; }, never), 7);
  EXPECT_TRUE(background_.run([] {}, never).has_value());
  EXPECT_THROW(background_.run([]() -> int { throw std::runtime_error("no"); }, never),
               std::runtime_error);
  EXPECT_TRUE(background_.idle());
}

TEST_F(BackgroundTest, ACallThatNobodyWaitsForGoesOnAndIsCounted) {
  std::promise<void> gate;
  bool stops = false;
  boost::asio::post(loop_, [&] { stops = true; });
  const auto value = background_.run(
      [open = gate.get_future().share()] {
        open.get();
        return 7;
      },
      [&] { return stops; });
  EXPECT_FALSE(value.has_value());
  EXPECT_FALSE(background_.idle());
  gate.set_value();
  EXPECT_TRUE(comes_true([&] {
    loop_.poll();
    return background_.idle();
  }));
}

TEST_F(BackgroundTest, DestroysWhatTheCallOwnedBeforeItsOutcomeIsKnown) {
  for (int round = 0; round < 100; ++round) {
    auto owned = std::make_shared<int>(round);
    const std::weak_ptr<int> watched = owned;
    EXPECT_EQ(background_.run([owned = std::move(owned)] { return *owned; }, [] { return false; }),
              round);
    ASSERT_TRUE(watched.expired()) << "the end of the process would cut off its destructor";
  }
}

TEST_F(BackgroundTest, ManyCallsAtOnceEachEndOnce) {
  std::atomic<int> ended = 0;
  for (int i = 0; i < 33; ++i) background_.send([&] { ++ended; });
  while (!background_.idle()) loop_.run_one();
  EXPECT_EQ(ended, 33);
}

// ---- addresses ---------------------------------------------------------------------------------

client::Url url_of(std::vector<std::string> hosts) {
  client::Url url;
  for (const std::string& host : hosts) url.daemons.push_back({host, 29500});
  return url;
}

TEST(LauncherAddress, ANodeAmongOthersNamesNoLoopbackAddress) {
  const std::string own = client::own_address();
  const std::string expected = own.empty() ? host_name() : own;
  EXPECT_EQ(address_towards(url_of({"127.0.0.1"}), false), expected);
  EXPECT_EQ(address_towards(url_of({"127.0.0.2", "::1"}), false), expected) << "of two daemons";
  EXPECT_EQ(address_towards(url_of({"no.such.host.invalid"}), false), expected);
  EXPECT_FALSE(is_loopback(address_towards(url_of({"127.0.0.1"}), false)));
}

TEST(LauncherAddress, AnIpv4LinkLocalAddressIsLast) {
  using Addresses = std::vector<std::string>;
  const auto widest = [](const Addresses& of) { return widest_address(of); };
  EXPECT_EQ(widest({"169.254.7.7", "10.0.0.3"}), "10.0.0.3");
  EXPECT_EQ(widest({"169.254.7.7", "2001:db8::7"}), "2001:db8::7");
  EXPECT_EQ(widest({"", "127.0.0.1", "::1", "fe80::1%eth0", "169.254.7.7", "169.254.8.8"}),
            "169.254.7.7");
  EXPECT_EQ(widest({"169.253.7.7", "10.0.0.3"}), "169.253.7.7");
  EXPECT_EQ(widest({"127.0.0.1", "fe80::1%eth0"}), "");
  EXPECT_EQ(widest({}), "");
}

TEST(LauncherAddress, TheDaemonThatIsNotOnThisMachineDecides) {
  const std::string towards = client::local_address_towards("192.0.2.1", "9");
  if (towards.empty()) GTEST_SKIP() << "no route to other machines";
  EXPECT_EQ(address_towards(url_of({"127.0.0.1", "192.0.2.1"}), false), towards);
}

TEST(LauncherAddress, ANodeAloneMayNameLoopback) {
  EXPECT_EQ(address_towards(url_of({"127.0.0.1"}), true), "127.0.0.1");
  EXPECT_EQ(address_towards(url_of({"no.such.host.invalid"}), true), "127.0.0.1");
}

// ---- ports -------------------------------------------------------------------------------------

using Ports = std::vector<std::uint16_t>;

TEST(PromisedPort, IsOneThatTheKernelGivesToNoConnection) {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int low = 0;
  int high = 0;
  ASSERT_TRUE(file >> low >> high);
  for (int i = 0; i < 33; ++i) {
    const PromisedPort one;
    EXPECT_TRUE(one.number() < low || one.number() > high || one.is_held()) << one.number();
  }
}

TEST(PromisedPort, LeavesOutTheRangeOfConnectionsAndWhatIsReserved) {
  const Ports usual = ports_to_promise("32768\t60999\n", "\n");
  EXPECT_EQ(usual.front(), 10'000);
  EXPECT_EQ(usual.back(), 9'999) << "those below 10000 come last";
  EXPECT_EQ(usual.size(), 32'768u - 1'024 + 65'535 - 60'999);
  EXPECT_EQ(ports_to_promise("", ""), usual) << "what Linux has without a setting";
  EXPECT_EQ(ports_to_promise("1024\t65535\n", ""), Ports());
  EXPECT_EQ(ports_to_promise("1026\t65533\n", ""), (Ports{65'534, 65'535, 1'024, 1'025}));
  EXPECT_EQ(ports_to_promise("1026\t65530\n", "1025,65531-65533,65535\n"), (Ports{65'534, 1'024}));
  EXPECT_EQ(ports_to_promise("1026\t65534\n", "1-1024"), (Ports{65'535, 1'025}));
}

}  // namespace
}  // namespace c10dd::run
