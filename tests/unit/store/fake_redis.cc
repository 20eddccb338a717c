// SPDX-License-Identifier: Apache-2.0
// A table of replies over test::FakeServer.
#include "tests/unit/store/fake_redis.h"

#include "store/job_head.h"

namespace c10dd::store {
namespace {

const std::string& good_reply(const std::string& name) {
  static const std::map<std::string, std::string> replies{
      {"AUTH", "+OK\r\n"},
      {"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
      {"INFO", "$48\r\n# Server\r\nrun_id:0123456789\r\ncluster_enabled:0\r\n\r\n"},
      {"CONFIG", "*2\r\n$1\r\na\r\n$3\r\nyes\r\n"},
      {"SCRIPT", "$40\r\n0123456789012345678901234567890123456789\r\n"},
      {"SET", "+OK\r\n"},
      {"GET", "$1\r\n" + std::to_string(kStoredFormat) + "\r\n"},
      {"SADD", ":1\r\n"},
      {"EVAL", "*3\r\n$1\r\n1\r\n$1\r\n0\r\n$3\r\n1 0\r\n"},
      {"EVALSHA", "$1\r\nd\r\n"},
      {"HGET", "$18\r\n1:0000000000000001\r\n"},
      {"HMGET", "*1\r\n$-1\r\n"},
      {"HSETNX", ":1\r\n"},
      {"SMEMBERS", "*1\r\n$1\r\n1\r\n"},
      {"HSCAN", "*2\r\n$1\r\n0\r\n*0\r\n"},
      {"HLEN", ":0\r\n"}};
  static const std::string unknown = "-ERR unknown command\r\n";
  const auto found = replies.find(name);
  return found == replies.end() ? unknown : found->second;
}

const std::map<std::string_view, std::string>& scripts() {
  static const std::map<std::string_view, std::string> names{
      {kRedisClaimScript, "claim"},     {kRedisDirectoryScript, "directory"},
      {kRedisReleaseScript, "release"}, {kRedisHandOverScript, "hand_over"},
      {kRedisForgetScript, "forget"},   {kRedisBeatScript, "beat"},
      {kRedisLeaveScript, "leave"},     {kRedisAcceptScript, "accept"},
      {kRedisProbeScript, "probe"},     {kRedisCommitScript, "commit"},
      {kRedisChangesScript, "changes"}};
  return names;
}

/// Returns the name of a script, if the command has the text of one.
std::string name_of(const FakeRedis::Words& words) {
  const auto found = words[0] == "EVAL" ? scripts().find(words[1]) : scripts().end();
  return found == scripts().end() ? words[0] : found->second;
}

}  // namespace

FakeRedis::FakeRedis(std::map<std::string, std::string> replies)
    : server_([this](std::string& in) { return take(in); },
              [](const test::FakeRequest& asked) {
                return test::FakeReply{good_reply(asked.argument)};
              }) {
  using Then = test::FakeReply::Then;
  for (const auto& [name, bytes] : replies) {
    const test::FakeReply reply{bytes, bytes.starts_with("-NOSCRIPT") ? Then::go_on : Then::close};
    say(name, {reply});
    if (name != "EVAL") continue;
    for (const auto& [text, script] : scripts()) say(script, {reply});
  }
  const std::string& at = server_.address();
  port_ = static_cast<std::uint16_t>(std::stoul(at.substr(at.find(':') + 1)));
}

RedisAddress FakeRedis::address() const {
  RedisAddress address;
  address.host = "127.0.0.1";
  address.port = port_;
  return address;
}

std::vector<FakeRedis::Words> FakeRedis::commands(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  std::vector<Words> found;
  for (const auto& [one, words] : commands_) {
    if (one == name) found.push_back(words);
  }
  return found;
}

FakeRedis::Words FakeRedis::names() const {
  const std::lock_guard lock(mutex_);
  Words names;
  for (const auto& [name, words] : commands_) names.push_back(name);
  return names;
}

std::optional<test::FakeRequest> FakeRedis::take(std::string& in) {
  const auto words = test::take_resp_words(in);
  if (!words) return std::nullopt;
  const std::string name = name_of(*words);
  const std::lock_guard lock(mutex_);
  commands_.emplace_back(name, *words);
  return test::FakeRequest{name, words->front()};
}

}  // namespace c10dd::store
