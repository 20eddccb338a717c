// SPDX-License-Identifier: Apache-2.0
// Tests what a client's connection does while real time passes, so these tests sleep: a full socket
// costs no processor time, and a periodic request waits for the reply to the last one.
#include "client/internal/connection.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/client/fake_daemon.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;

constexpr Duration kPatience = 60s;

TEST(ConnectionTime, AFullSocketCostsNoProcessorTime) {
  std::promise<void> ends;
  const std::shared_future<void> end = ends.get_future().share();
  FakeDaemon daemon(
      [&](const Sent& asked) -> std::optional<FakeReply> {
        if (asked.header.op == Get::op.code) end.wait();  // and reads nothing meanwhile
        return std::nullopt;
      },
      64 * 1024);
  Connection connection(at(daemon));
  ASSERT_TRUE(connection.wait_open(kPatience));
  connection.post(Get{"first"}, kPatience);
  connection.post(Set{"k", Bytes(limits::kValueBytes, 'v')}, kPatience);
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 5) << "of 0.5 s";
  ends.set_value();
}

TEST(ConnectionTime, APeriodicRequestWaitsForTheReplyToTheLastOne) {
  std::mutex mutex;
  std::vector<bool> again;
  std::atomic<int> came = 0;
  FakeDaemon daemon([&](const Sent& asked) -> std::optional<FakeReply> {
    if (asked.header.op != Set::op.code) return std::nullopt;
    ++came;
    if (came < 3) return FakeReply{reply_to(asked, ReplyBody(Written{1}))};
    return FakeReply{};
  });
  const auto set = [&](bool first) -> std::optional<Request> {
    const std::lock_guard lock(mutex);
    again.push_back(first);
    return Request(Set{"report", "v"});
  };
  Connection connection(at(daemon), {{.period = 100ms, .request = set}});
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (came < 3 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(came, 3) << "the third has no reply yet";
  const std::lock_guard lock(mutex);
  EXPECT_EQ(again, (std::vector<bool>{true, false, false}));
}

}  // namespace
}  // namespace c10dd::client
