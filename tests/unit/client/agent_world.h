// SPDX-License-Identifier: Apache-2.0
// A daemon in memory with the group of c10drun, in which a launched agent is node 0, and other
// nodes are only told of.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/launcher/agent.h"
#include "protocol/exit_codes.h"
#include "protocol/fields.h"
#include "protocol/group_ops.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {

/// How a launch has ended.
struct Launched {
  int code = -1;      ///< also of a Fatal
  std::string fatal;  ///< its text
  std::string out;    ///< standard output of the workers
  std::string notes;  ///< standard error of the workers, and the notes of the launcher
};

class AgentWorld : public testing::Test {
 protected:
  using Sent = client::Sent;
  /// The reply to a request; nothing: as usual.
  using Script = std::function<std::optional<Reply>(const Sent&)>;

  AgentWorld() {
    options_.nproc = 2;
    options_.daemon.job = "job";
    options_.daemon.daemons = {{"127.0.0.1", port_of(daemon_.address())}};
    options_.store_in_rank0 = true;
    options_.local_address = "127.0.0.1";
  }

  /// Runs c10drun with workers that run this script of the shell.
  Launched launch(const std::string& script) {
    options_.command = {"sh", "-c", script};
    Launched launched;
    test::Pipe out;
    test::Pipe error;
    {
      const test::ReplacedStream first(STDOUT_FILENO, out.in());
      const test::ReplacedStream second(STDERR_FILENO, error.in());
      Console console(true, true);
      Agent agent(options_, "/bin/sh", {{"PATH", "/usr/bin:/bin"}, {"HOME_OF_TEST", home_.path()}},
                  home_.path(), orphan_killer_, console);
      try {
        launched.code = agent.run();
      } catch (const Fatal& fatal) {
        launched.code = fatal.code();
        launched.fatal = fatal.what();
      }
      EXPECT_TRUE(agent.idle());
      console.finish();
    }
    launched.out = out.rest();
    launched.notes = error.rest();
    return launched;
  }

  void follow(Script script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  /// Tells this status to the watch that waits, with the next reply.
  void tell(GroupStatus status) { news_.push_back(std::move(status)); }
  /// A status of the present generation.
  GroupStatus status(GroupPhase phase, const std::string& reason) {
    GroupStatus status;
    status.number = ++statuses_;
    status.round = status.generation = generation_;
    status.size = static_cast<std::uint32_t>(labels_.size());
    status.phase = phase;
    status.reason = reason;
    return status;
  }
  int asked(std::uint8_t op) {
    const std::lock_guard lock(mutex_);
    return asked_[op];
  }
  std::vector<Leave> leaves() {
    const std::lock_guard lock(mutex_);
    return leaves_;
  }

  TemporaryDirectory home_;
  OrphanKiller orphan_killer_{""};  // before the threads of the daemon
  Options options_;
  // What the daemon knows. Changed by a test before the launch, or by its script.
  std::vector<std::string> nodes_;  ///< keys of the agents that are connected
  std::string flags_;               ///< of each of them
  std::uint64_t generation_ = 0;
  std::uint64_t statuses_ = 100;
  std::uint32_t failures_ = 0;
  bool tells_failures_ = true;  ///< by the status of the group
  /// How many workers each node has.
  std::vector<std::string> labels_ = {"2"};

 private:
  static std::uint16_t port_of(const std::string& address) {
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

  std::optional<test::FakeReply> reply(const Sent& one) {
    const std::lock_guard lock(mutex_);
    ++asked_[one.header.op];
    if (one.header.op == Hello::op.code && !script_) return std::nullopt;
    std::optional<Reply> own = script_ ? script_(one) : std::nullopt;
    if (!own && one.header.op == Hello::op.code) return std::nullopt;
    if (one.header.op == WatchGroup::op.code) watch_ = one;
    if (!own && one.header.op != WatchGroup::op.code) own = usual(one);
    std::string bytes;
    if (watch_ && !news_.empty()) {
      bytes += client::reply_to(*watch_, ReplyBody(news_.front()));
      news_.erase(news_.begin());
      watch_.reset();
    }
    return test::FakeReply{bytes + (own ? client::reply_to(one, *own) : "")};
  }

  Reply usual(const Sent& one) {
    if (one.header.op == List::op.code) return ReplyBody(KeyPage{nodes_, false, 1});
    if (one.header.op == Set::op.code) return ReplyBody(Written{1});
    if (one.header.op == Join::op.code) return ReplyBody(join());
    if (one.header.op == ReadMembers::op.code) return ReplyBody(members());
    if (one.header.op == Notify::op.code) return ReplyBody(Counted{1});
    if (const auto* get = std::get_if<Get>(&one.request)) {
      const bool known = !flags_.empty() && std::string(get->key).starts_with("c10drun/nodes/");
      return known ? Reply(ReplyBody(Value{flags_, 1})) : failure(Code::not_found, "no such key");
    }
    if (one.header.op == Transact::op.code) return ReplyBody(Transacted{true, 0, 1, {}});
    if (const auto* exchange = std::get_if<Exchange>(&one.request)) {
      std::vector<Bytes> parts = exchange->parts;
      parts.resize(labels_.size(), "0 0 -1 ");  // of a newcomer
      return ReplyBody(exchanged(parts));
    }
    if (const auto* leave = std::get_if<Leave>(&one.request)) {
      leaves_.push_back(*leave);
      if (leave->kind == Leave::Kind::fail && tells_failures_) {
        ++failures_;
        tell(status(GroupPhase::broken, "rank 0 on host-a (pid 9) has failed: " + leave->detail));
      }
    }
    return ReplyBody(Done{});
  }

  Joined join() {
    Joined joined;
    joined.round = joined.generation = ++generation_;
    joined.size = static_cast<std::uint32_t>(labels_.size());
    joined.failures = failures_;
    joined.reason = "the members have come";
    joined.status = ++statuses_;
    return joined;
  }

  MemberPage members() const {
    MemberPage page;
    page.generation = generation_;
    page.size = page.count = static_cast<std::uint32_t>(labels_.size());
    Bytes list;
    for (Rank rank = 0; rank < page.size; ++rank) {
      MemberInfo member;
      member.rank = rank;
      member.host = rank == 0 ? "host-a" : "host-b";
      member.labels = {{"nproc", labels_[rank]},
                       {"address", "127.0.0." + std::to_string(rank + 1)}};
      const Bytes encoded = wire::encode(member);
      wire::Writer(list).put(static_cast<std::uint32_t>(encoded.size()));
      list += encoded;
    }
    const std::size_t size = list.size();
    page.list = {std::make_shared<const Bytes>(std::move(list)), 0, size};
    return page;
  }

  static Exchanged exchanged(const std::vector<Bytes>& parts) {
    Bytes list;
    wire::Writer(list).put(parts);
    Exchanged all;
    all.total = list.size();
    all.chunk = {std::make_shared<const Bytes>(list), 0, list.size()};
    return all;
  }

  std::mutex mutex_;
  Script script_;
  std::map<std::uint8_t, int> asked_;
  std::vector<Leave> leaves_;
  std::vector<GroupStatus> news_;
  std::optional<Sent> watch_;
  client::FakeDaemon daemon_{[this](const Sent& one) { return reply(one); }};
};

}  // namespace c10dd::run
