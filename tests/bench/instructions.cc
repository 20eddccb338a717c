// SPDX-License-Identifier: Apache-2.0
// Scenario instructions. Each case is a number of equal requests; before they are counted, a third
// as many warm the server up.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/limits.h"
#include "tests/bench/callgrind.h"
#include "tests/bench/crowd.h"
#include "tests/bench/group_crowd.h"
#include "tests/bench/native_frames.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

constexpr unsigned kRequests = 2'400;
constexpr unsigned kCountedBarriers = 60;  // barriers of kGroupMembers
constexpr unsigned kJoins = 12;            // rounds of joins, and of notices
constexpr unsigned kGroupMembers = 64;
constexpr std::size_t kFunctionsShown = 20;
constexpr std::size_t kNameShown = 96;
constexpr double kTolerance = 1.03;
const std::string kPer = "instructions";

struct Case {
  std::string name;
  unsigned requests = 0;                    ///< of a measurement
  std::function<void(unsigned count)> run;  ///< has so many requests answered
};

/// One connection that keeps `depth` requests open: it sends them together, then reads all replies.
class Batches {
 public:
  Batches(const Address& server, std::unique_ptr<Conversation> conversation, unsigned depth)
      : line_(server), conversation_(std::move(conversation)), depth_(depth) {
    Bytes out;
    for (unsigned step = 0; conversation_->opening(step, out); ++step) {
      line_.send(out);
      receive(1);
      out.clear();
    }
  }

  void run(unsigned count) {
    for (unsigned sent = 0; sent < count; sent += depth_) {
      Bytes out;
      for (unsigned i = 0; i < depth_; ++i) conversation_->request(out);
      line_.send(out);
      receive(depth_);
    }
  }

 private:
  void receive(unsigned replies) {
    line_.receive(replies, [&](std::string_view in) { return conversation_->take(in).bytes; });
  }

  Line line_;
  std::unique_ptr<Conversation> conversation_;
  unsigned depth_;
};

/// Opens a session, and sends nothing but heartbeats.
class Heartbeats final : public Conversation {
 public:
  bool opening(unsigned step, Bytes& out) override {
    if (step > 0) return false;
    out += native::kMagic;
    native::encode_request(out, {}, new_session());
    return true;
  }
  bool closing(unsigned, Bytes&) override { return false; }
  std::uint64_t request(Bytes& out) override {
    native::encode_request(out, {}, Ping{});
    return 0;
  }
  Taken take(std::string_view in) override {
    const auto frame = cut_success(in);
    return {frame ? frame->size : 0, 0};
  }
};

/// kGroupMembers sessions that join one group together, and follow it.
class Members {
 public:
  explicit Members(const Address& server)
      : members_(server, kGroupMembers, kGroupMembers), teller_(server, 1, 1) {
    join_ = join_of("instructions", kGroupMembers);
    join_.policy.ttl = limits::kMemberTtlMax;  // a heartbeat would be counted, too
  }

  /// Has all members join the next generation.
  void join() {
    members_.send(members_.encode(0, kGroupMembers, [&](unsigned) { return join_; }));
    members_.receive_each([&](unsigned, const ReplyBody& reply) {
      join_.round = std::get<Joined>(reply).round;
      status_ = std::get<Joined>(reply).status;
    });
  }

  /// Has all members watch the group, and tells the daemon to notify them.
  void notify() {
    const WatchGroup watch{join_.group, status_, kPatience};
    members_.send(members_.encode(0, kGroupMembers, [&](unsigned) { return watch; }));
    members_.settle();
    Notify notice;
    notice.group = join_.group;
    notice.ranks = {0};
    teller_.ask([&](unsigned) { return notice; });
    members_.receive_each(
        [&](unsigned, const ReplyBody& reply) { status_ = std::get<GroupStatus>(reply).number; });
  }

 private:
  Crowd members_;
  Crowd teller_;
  Join join_;
  std::uint64_t status_ = 0;
};

using Converse = std::unique_ptr<Conversation> (*)(const Workload&, unsigned);

std::vector<Case> loads(const Address& server, Converse converse, const Options& options) {
  std::vector<Case> cases;
  for (const unsigned depth : {16U, 1U}) {
    for (const Operation operation : {Operation::get, Operation::set}) {
      const Workload workload{operation, options.key_bytes, options.value_bytes};
      const auto batches = std::make_shared<Batches>(server, converse(workload, depth), depth);
      const std::string name = operation == Operation::get ? "get" : "set";
      cases.push_back({name + ", depth " + std::to_string(depth), kRequests,
                       [batches](unsigned count) { batches->run(count); }});
    }
  }
  return cases;
}

/// Cases of one session that asks for one thing at a time, and of kGroupMembers sessions together.
std::vector<Case> calls(const Address& server) {
  const auto one = std::make_shared<Crowd>(server, 1, 1);
  const auto asks = [&](const std::string& name, const Request& request) {
    return Case{name, kRequests, [one, request](unsigned count) {
                  for (unsigned i = 0; i < count; ++i) one->ask([&](unsigned) { return request; });
                }};
  };
  one->ask([](unsigned) { return Set{"there", "v"}; });
  std::vector<Case> cases = {asks("add", Add{"sum", 1}),
                             asks("wait, key exists", Wait{{"there"}, std::chrono::seconds(1)})};
  const auto beats = std::make_shared<Batches>(server, std::make_unique<Heartbeats>(), 1);
  cases.push_back({"heartbeat", kRequests, [beats](unsigned count) { beats->run(count); }});
  const auto all = std::make_shared<Crowd>(server, kGroupMembers, kGroupMembers);
  const auto sequence = std::make_shared<std::uint64_t>(0);
  cases.push_back(
      {"barrier of 64, each member", kCountedBarriers * kGroupMembers, [=](unsigned count) {
         for (unsigned met = 0; met < count; met += kGroupMembers) {
           Barrier barrier;
           barrier.name = "meet";
           barrier.sequence = (*sequence)++;
           barrier.world_size = kGroupMembers;
           barrier.timeout = kPatience;
           all->ask([&](unsigned rank) {
             barrier.rank = rank;
             return barrier;
           });
         }
       }});
  const auto members = std::make_shared<Members>(server);
  const auto rounds = [members](void (Members::*round)()) {
    return [members, round](unsigned count) {
      for (unsigned n = 0; n < count; n += kGroupMembers) ((*members).*round)();
    };
  };
  cases.push_back({"join of 64, each member", kJoins * kGroupMembers, rounds(&Members::join)});
  cases.push_back(
      {"notice to 64 followers, each", kJoins * kGroupMembers, rounds(&Members::notify)});
  return cases;
}

/// Adds what one request of the case costs: in all, by library, and, if asked for, by function.
void report(const std::string& name, unsigned requests, std::vector<FunctionCost> costs,
            bool with_functions, ScenarioResult& result) {
  std::uint64_t total = 0;
  std::map<std::string, std::uint64_t> libraries;
  for (const FunctionCost& cost : costs) {
    total += cost.instructions;
    libraries[cost.library] += cost.instructions;
  }
  const auto each = [&](std::uint64_t sum) {
    return std::vector<double>{static_cast<double>(sum) / requests};
  };
  result.facts.push_back({name, kPer, each(total)});
  for (const auto& [library, sum] : libraries) {
    if (sum >= total / 100) result.facts.push_back({"  in " + library, kPer, each(sum)});
  }
  if (!with_functions) return;
  std::ranges::sort(costs, std::ranges::greater(), &FunctionCost::instructions);
  costs.resize(std::min(costs.size(), kFunctionsShown));
  for (const FunctionCost& cost : costs) {
    result.facts.push_back(
        {"    " + cost.function.substr(0, kNameShown), kPer, each(cost.instructions)});
  }
}

/// Throws std::runtime_error if a case costs more than its budget, or has none. Each line of the
/// file is a number of instructions and the name of a case; a line that begins with # is a comment.
void check_budgets(const std::string& path, const ScenarioResult& result) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read the budgets in " + path);
  std::map<std::string, double> budgets;
  double budget = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    if (words >> budget && std::getline(words >> std::ws, name)) budgets[name] = budget;
  }
  std::string wrong;
  for (const Fact& fact : result.facts) {
    if (fact.name.starts_with(" ")) continue;
    const auto found = budgets.find(fact.name);
    const double cost = fact.rounds.front();
    if (found != budgets.end() && cost <= found->second * kTolerance) continue;
    wrong += "\n  " + fact.name + ": " + std::to_string(std::llround(cost)) + " instructions, " +
             (found == budgets.end() ? "no budget"
                                     : "budget " + std::to_string(std::llround(found->second)));
  }
  if (!wrong.empty())
    throw std::runtime_error("more instructions than " + path + " allows:" + wrong);
}

void measure(const std::vector<Case>& cases, const std::string& server, pid_t process,
             Callgrind& callgrind, const Options& options, ScenarioResult& result) {
  for (const Case& one : cases) {
    const std::string name = one.name + ", " + server;
    if (name.find(options.only) == std::string::npos) continue;
    one.run(one.requests / 3);
    callgrind.zero(process);
    one.run(one.requests);
    report(name, one.requests, callgrind.take(process), !options.only.empty(), result);
  }
}

}  // namespace

ScenarioResult run_instructions(const Options& options) {
  ScenarioResult result;
  result.name = "instructions";
  result.parameters = {{"key_bytes", options.key_bytes}, {"value_bytes", options.value_bytes}};
  for (const std::string engine : {"memory:", "rocksdb:DIR"}) {
    Callgrind callgrind;
    const ServersUnder valgrind(callgrind.command());
    const DaemonServer daemon(engine, "os");
    std::vector<Case> cases = loads(daemon.address(), native_conversation, options);
    std::ranges::move(calls(daemon.address()), std::back_inserter(cases));
    measure(cases, "c10dd " + engine.substr(0, engine.find(':')), daemon.process(), callgrind,
            options, result);
  }
  for (const Peer& peer : options.against) {
    if (peer.kind != Peer::Kind::redis) continue;
    for (const std::string appendfsync : {"", "everysec"}) {
      Callgrind callgrind;
      const ServersUnder valgrind(callgrind.command());
      const RedisServer redis(appendfsync);
      measure(loads(redis.address(), redis_conversation, options),
              appendfsync.empty() ? "redis" : "redis " + appendfsync, redis.process(), callgrind,
              options, result);
    }
  }
  if (!options.budgets.empty()) check_budgets(options.budgets, result);
  return result;
}

}  // namespace c10dd::bench
