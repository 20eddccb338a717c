// SPDX-License-Identifier: Apache-2.0
// A daemon in memory for node proxies, which counts, and replies otherwise where a test says so.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/proxy/proxy.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/comes_true.h"

namespace c10dd::proxy {

class ProxyWorld : public testing::Test {
 protected:
  /// Decides the reply to a request; the daemon counts and serves what it does not take.
  using Script = std::function<std::optional<test::FakeReply>(const client::Sent&)>;

  ProxySettings settings(const std::string& run = "run") {
    return {.daemons = {daemon_.address()},
            .job = "job",
            .run = run,
            .host = "node",
            .say = [this](const std::string& line) {
              const std::lock_guard lock(mutex_);
              said_ += line + "\n";
            }};
  }
  void follow(Script script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  /// The requests of an operation so far.
  std::vector<client::Sent> asked(std::uint8_t op) {
    const std::lock_guard lock(mutex_);
    std::vector<client::Sent> found;
    for (const client::Sent& one : asked_) {
      if (one.header.op == op) found.push_back(one);
    }
    return found;
  }
  std::vector<Hello> hellos() {
    std::vector<Hello> all;
    for (const client::Sent& one : asked(Hello::op.code))
      all.push_back(std::get<Hello>(one.request));
    return all;
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  static bool is_left(const Proxy& proxy) {
    return test::comes_true([&] { return proxy.counts().clients == 0; });
  }

 private:
  std::optional<test::FakeReply> reply(const client::Sent& one) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(one);
    if (script_) {
      if (auto scripted = script_(one)) return scripted;
    }
    if (const auto* add = std::get_if<Add>(&one.request)) {
      std::int64_t& sum = sums_[std::string(add->key)];
      sum += add->delta;
      return test::FakeReply{client::reply_to(one, ReplyBody(Counter{sum}))};
    }
    return std::nullopt;
  }

  std::mutex mutex_;
  Script script_;
  std::vector<client::Sent> asked_;
  std::map<std::string, std::int64_t> sums_;
  std::string said_;
  client::FakeDaemon daemon_{[this](const client::Sent& one) { return reply(one); }};
};

}  // namespace c10dd::proxy
