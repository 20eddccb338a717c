// SPDX-License-Identifier: Apache-2.0
// What agents of c10drun keep in the job's store: losses of hosts, and flags that must agree; over
// a daemon on which other agents change the same keys.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "client/client.h"
#include "client/launcher/address.h"
#include "client/launcher/flaps.h"
#include "client/launcher/shared_flags.h"
#include "tests/unit/client/fake_daemon.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;

class LauncherStoreTest : public testing::Test {
 protected:
  JobStore& store() { return *client_->store(); }

  std::map<std::string, std::string> keys_;
  /// What another agent writes just before the next transaction, as a key and its value.
  std::optional<std::pair<std::string, std::string>> other_;
  std::vector<Transact> transactions_;
  bool refuses_ = false;

 private:
  std::optional<FakeReply> reply(const client::Sent& one) {
    const bool is_call = one.header.op == Get::op.code || one.header.op == Set::op.code ||
                         one.header.op == List::op.code || one.header.op == Transact::op.code;
    if (!is_call) return std::nullopt;
    if (refuses_) return answer(one, failure(Code::quota_exceeded, "no"));
    if (const auto* get = std::get_if<Get>(&one.request)) {
      const auto found = keys_.find(std::string(get->key));
      return answer(one, found == keys_.end() ? Reply(failure(Code::not_found, "no such key"))
                                              : Reply(ReplyBody(Value{found->second, 1})));
    }
    if (const auto* list = std::get_if<List>(&one.request)) {
      KeyPage page;
      for (const auto& [key, value] : keys_) {
        if (key.starts_with(std::string(list->prefix))) page.keys.push_back(key);
      }
      return answer(one, ReplyBody(page));
    }
    if (const auto* set = std::get_if<Set>(&one.request)) {
      keys_[std::string(set->key)] = std::string(set->value);
      is_ephemeral_ = set->ephemeral;
      return answer(one, ReplyBody(Written{1}));
    }
    return answer(one, ReplyBody(transact(std::get<Transact>(one.request))));
  }
  static FakeReply answer(const client::Sent& one, const Reply& with) {
    return {client::reply_to(one, with)};
  }

  Transacted transact(const Transact& asked) {
    transactions_.push_back(asked);
    if (other_) keys_[other_->first] = other_->second;
    other_.reset();
    for (const auto& condition : asked.conditions) {
      const auto found = keys_.find(condition.key);
      const bool holds = condition.kind == Condition::Kind::absent
                             ? found == keys_.end()
                             : found != keys_.end() && found->second == condition.value;
      if (!holds) return {};
    }
    for (const auto& action : asked.actions) keys_[action.key] = action.value;
    return {true, 0, 1, {}};
  }

 protected:
  bool is_ephemeral_ = false;

 private:
  client::FakeDaemon daemon_{[this](const client::Sent& one) { return reply(one); }};
  std::shared_ptr<Client> client_ = Client::connect("c10dd://" + daemon_.address() + "/job");
};

// ---- losses ------------------------------------------------------------------------------------

TEST_F(LauncherStoreTest, ALossIsCountedOnceInAGenerationForEachHost) {
  EXPECT_EQ(flaps_of(store(), "a"), 0u);
  EXPECT_EQ(count_flap(store(), "a", 5), 1u);
  EXPECT_EQ(count_flap(store(), "a", 5), 1u) << "another agent has counted it";
  EXPECT_EQ(count_flap(store(), "a", 4), 1u) << "an agent that is late";
  EXPECT_EQ(count_flap(store(), "b", 5), 1u);
  EXPECT_EQ(count_flap(store(), "a", 6), 2u);
  EXPECT_EQ(transactions_.size(), 3u);
  EXPECT_EQ(flaps_of(store(), "a"), 2u);
  EXPECT_EQ(flaps_of(store(), "b"), 1u);
  EXPECT_EQ(keys_, (std::map<std::string, std::string>{{"c10drun/flaps/a", "2 6"},
                                                       {"c10drun/flaps/b", "1 5"}}));
  for (const Transact& one : transactions_) EXPECT_EQ(one.actions.at(0).ttl, 15min);
}

TEST_F(LauncherStoreTest, AgentsThatCountAtOnceCountOnce) {
  other_ = {"c10drun/flaps/a", "1 5"};
  EXPECT_EQ(count_flap(store(), "a", 5), 1u);
  EXPECT_EQ(transactions_.size(), 1u);
  other_ = {"c10drun/flaps/a", "2 6"};
  EXPECT_EQ(count_flap(store(), "a", 7), 3u) << "the other has counted another loss";
  EXPECT_EQ(transactions_.size(), 3u);
  EXPECT_EQ(keys_["c10drun/flaps/a"], "3 7");
}

TEST_F(LauncherStoreTest, ALossThatCannotBeReadCountsAsNone) {
  keys_["c10drun/flaps/a"] = "garbage";
  EXPECT_EQ(flaps_of(store(), "a"), 0u);
  EXPECT_EQ(count_flap(store(), "a", 5), 1u);
  refuses_ = true;
  EXPECT_THROW(flaps_of(store(), "a"), Error);
}

// ---- flags -------------------------------------------------------------------------------------

TEST_F(LauncherStoreTest, FlagsArePublishedUnderTheNameOfTheAgentWhileItLives) {
  const SharedFlags flags = {{"--nnodes", "2"}, {"--last-call", "30 s"}};
  const std::string self = host_name() + " (pid " + std::to_string(getpid()) + ")";
  EXPECT_TRUE(agents(store()).empty());
  publish(store(), flags);
  EXPECT_TRUE(is_ephemeral_);
  EXPECT_EQ(decode_flags(keys_["c10drun/nodes/" + self]), flags);
  keys_["c10drun/nodes/other (pid 1)"] = encode(flags);
  keys_["c10drun/flaps/other"] = "1 5";
  EXPECT_EQ(agents(store()).size(), 2u);
  EXPECT_EQ(disagreement(store(), flags), "");
}

TEST_F(LauncherStoreTest, TheAgentAndTheFlagsThatDifferAreNamed) {
  keys_["c10drun/nodes/a (pid 1)"] = encode({{"--nnodes", "2"}, {"--last-call", "30 s"}});
  keys_["c10drun/nodes/b (pid 2)"] =
      encode({{"--nnodes", "3"}, {"--last-call", "10 s"}, {"--newer", "x"}});
  EXPECT_EQ(disagreement(store(), {{"--nnodes", "2"}, {"--last-call", "30 s"}, {"--own", "y"}}),
            "--last-call is 30 s here and 10 s on b (pid 2), and --nnodes is 2 here and 3 on b "
            "(pid 2)");
}

TEST_F(LauncherStoreTest, ADaemonThatRefusesIsReportedOnlyByTheRendezvous) {
  refuses_ = true;
  publish(store(), {{"--nnodes", "2"}});
  EXPECT_TRUE(agents(store()).empty());
  EXPECT_THROW(disagreement(store(), {}), Error);
}

}  // namespace
}  // namespace c10dd::run
