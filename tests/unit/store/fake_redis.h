// SPDX-License-Identifier: Apache-2.0
// A server that replies like Redis, except to commands for which a test has set other replies. It
// remembers all commands.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "store/redis/commands.h"
#include "tests/unit/fake_server.h"
#include "tests/unit/resp_words.h"

namespace c10dd::store {

class FakeRedis {
 public:
  using Words = std::vector<std::string>;

  /// Raw replies by the name of the command. The connection ends with such a reply, unless it is
  /// NOSCRIPT, which is followed by another try on the same connection.
  explicit FakeRedis(std::map<std::string, std::string> replies = {});

  std::string url() const { return "redis://" + server_.address(); }
  std::uint16_t port() const { return port_; }
  RedisAddress address() const;

  /// From now on, commands of this name get these replies one after the other, and the last one for
  /// ever. The name is that of the command, or of a script: "claim", "commit" (if sent with its
  /// text), "beat" and so on.
  void say(const std::string& name, std::deque<test::FakeReply> replies) {
    server_.say(name, std::move(replies));
  }

  /// Returns the commands of this name, in the order in which they came.
  std::vector<Words> commands(const std::string& name) const;
  /// Returns the names of all commands.
  Words names() const;

  test::FakeServer& server() { return server_; }

 private:
  std::optional<test::FakeRequest> take(std::string& in);

  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, Words>> commands_;
  std::uint16_t port_ = 0;
  test::FakeServer server_;  // last, because its threads use the other members
};

/// Expects that a call fails with each of these replies as unexpected. `open` opens the connection
/// anew; `next` is another call, which must fail after that, because the connection has ended: it
/// may be one reply behind.
template <class Open, class Call, class Next>
void expect_unexpected(FakeRedis& server, const std::string& name,
                       const std::vector<std::string>& replies, const Open& open, const Call& call,
                       const Next& next) {
  for (const std::string& reply : replies) {
    open();
    server.say(name, {{reply}});
    const auto result = call();
    ASSERT_FALSE(result) << name << " " << reply;
    EXPECT_EQ(result.error().code, Code::unavailable) << name << " " << reply;
    EXPECT_NE(result.error().detail.find("unexpected reply"), std::string::npos)
        << name << " " << reply << result.error().detail;
    EXPECT_FALSE(next()) << name << " " << reply;
  }
  open();
}

}  // namespace c10dd::store
