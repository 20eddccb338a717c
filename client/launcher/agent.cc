// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/agent.h"

#include <sched.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <ctime>
#include <set>
#include <sstream>

#include "client/launcher/address.h"
#include "client/launcher/flaps.h"
#include "client/launcher/plan.h"
#include "client/launcher/shared_flags.h"
#include "client/launcher/signals.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::run {
namespace {

constexpr const char* kGroup = "c10drun";
/// When a node dies, workers of other nodes fail before the daemon declares the node lost (250 ms
/// after the node's connection has closed). So a failed worker counts as a failure only if no node
/// is declared lost within kSettle.
constexpr Duration kSettle = std::chrono::milliseconds(600);
constexpr Duration kJoinNoteInterval = std::chrono::seconds(30);
constexpr Duration kLastCalls = std::chrono::seconds(1);
/// How long an agent waits until the group's status shows the failure that the agent has reported.
constexpr Duration kStatusDelay = std::chrono::seconds(1);

/// Returns a unique name that begins with the current time.
std::string name_launch() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ-", &utc);
  return text + random_name();
}

/// Returns names, or the first few and the number of the others.
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text.append(i > 0 ? ", " : "").append(printable(names[i], limits::kNameShown));
  }
  if (names.size() > kShown) text += format(" and {} others", names.size() - kShown);
  return text.empty() ? "none" : text;
}

/// Returns how many threads each of so many workers gets; 0: the worker decides.
std::uint32_t threads_of(std::uint32_t workers) {
  cpu_set_t allowed;
  if (workers == 1 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  return std::max(1u, static_cast<std::uint32_t>(CPU_COUNT(&allowed)) / workers);
}

/// Data that the agents exchange when a generation starts. All agents use node 0's port and nonce.
struct LaunchFacts {
  std::string port = "0";
  std::string nonce = "0";
  std::int64_t base = -1;  ///< how many failures the group had before this launch; -1: unknown
  std::string launch;      ///< may be empty
  std::string store;       ///< of node 0: proxy or rank0; empty if `launch` is

  std::string encode() const {
    const std::string end = launch.empty() ? "" : launch + " " + store;
    return format("{} {} {} {}", port, nonce, base, end);
  }
  static LaunchFacts decode(const std::string& text) {
    LaunchFacts facts;
    std::istringstream(text) >> facts.port >> facts.nonce >> facts.base >> facts.launch >>
        facts.store;
    return facts;
  }
};

int code_of(const Error& error) {
  switch (error.code()) {
    case Code::work_finished:
      return exit_code::kDone;
    case Code::timed_out:
      return exit_code::kTryAgain;
    case Code::invalid_argument:
    case Code::size_mismatch:
    case Code::rank_taken:
    case Code::too_large:
      return exit_code::kUsage;
    default:
      return exit_code::kUnreachable;
  }
}

}  // namespace

Agent::Agent(Options options, std::string program, std::map<std::string, std::string> inherited,
             std::string scratch, OrphanKiller& orphan_killer, Console& console)
    : options_(std::move(options)),
      orphan_killer_(orphan_killer),
      console_(console),
      home_{loop_,
            orphan_killer,
            console,
            std::move(program),
            std::move(inherited),
            std::move(scratch)} {
  for (const int number : ending_signals()) {
    struct sigaction now {};
    const bool ignored =
        sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;  // as under nohup
    if (!ignored || number == SIGTERM) signals_.add(number);
  }
  for (const int number : forwarded_signals()) signals_.add(number);
}

int Agent::run() {
  receive_signals();
  int code = 0;
  try {
    code = go();
  } catch (const Stopped&) {
    code = leave_by_request();
  }
  // A call whose effect is known already may not have returned. Without it, the client can say
  // goodbye, and the daemon keeps nothing of this launch.
  const auto deadline = std::chrono::steady_clock::now() + kLastCalls;
  while (!background_.idle() && std::chrono::steady_clock::now() < deadline) {
    loop_.run_one_until(deadline);
  }
  return code;
}

int Agent::go() {
  if (options_.standalone) {
    daemon_ = std::make_unique<Standalone>(loop_, orphan_killer_, daemon_program(), home_.inherited,
                                           home_.scratch + "/c10dd.log");
    options_.daemon.daemons = {{"127.0.0.1", daemon_->port()}};
  }
  connect();
  rendezvous();
  for (;;) {
    const Outcome outcome = work();
    if (outcome == Outcome::done) return finish();
    if (outcome == Outcome::failed || !rejoin()) return end_failed();
  }
}

void Agent::connect() {
  ClientOptions own;
  own.run = options_.run;
  own.timeout = options_.connect_timeout;
  const std::string address = options_.daemon.addresses();
  const std::string url = options_.daemon.text();
  try {
    client_ = call([url, own] { return Client::connect(url, own); });
  } catch (const TimedOut& late) {
    throw Fatal(
        exit_code::kUnreachable,
        format("cannot connect to a daemon at {}: {}; start one with: c10dd --listen HOST:PORT "
               "--engine memory:, give its address with --daemon, or use --standalone",
               address, late.what()));
  } catch (const Error& error) {
    throw Fatal(exit_code::kUnreachable,
                format("{} {} refused the connection: {}",
                       options_.daemon.daemons.size() > 1 ? "a daemon of" : "the daemon at",
                       address, error.what()));
  }
}

void Agent::rendezvous() {
  if (options_.local_address.empty()) {
    options_.local_address = address_towards(options_.daemon, options_.max_nodes == 1);
  }
  RendezvousOptions join;
  join.group = kGroup;
  join.min = options_.min_nodes;
  join.max = options_.max_nodes;
  join.last_call = options_.last_call;
  join.timeout = options_.join_timeout;
  join.rank = options_.node_rank;
  join.domain = options_.domain;
  join.labels = member_labels(options_, options_.local_address);
  note(format("job {}, daemon {}, program {}", options_.daemon.job, options_.daemon.addresses(),
              home_.program));
  if (!options_.from_variables.empty()) {
    std::string text = "options from the environment:";
    for (const std::string& variable : options_.from_variables) text += " " + variable;
    note(text);
  }
  if (options_.max_nodes > 1) {
    const bool range = options_.min_nodes < options_.max_nodes;
    note(format("job {}: waiting for {}{} at {}", options_.daemon.job,
                range ? std::to_string(options_.min_nodes) + " to " : "",
                plural(options_.max_nodes, "node"), options_.daemon.addresses()));
  }
  const auto patience = std::make_shared<boost::asio::steady_timer>(loop_);
  const auto look = [client = client_] { return agents(*client->store()); };
  const auto publish_flags = [client = client_, flags = shared_flags(options_)] {
    publish(*client->store(), flags);
  };
  try {
    const std::vector<std::string> before = call(look);
    if (before.size() >= options_.max_nodes) {
      note(format(
          "job {}: another launch of this job is running on {}; this launch waits until the other "
          "launch ends; to start now, choose another --job",
          options_.daemon.job, list_of(before)));
    }
    if (options_.max_nodes > 1) hold_off();
    call(publish_flags);
    say_who_has_joined(patience);
    membership_ = call([client = client_, join] { return client->rendezvous(join); });
    patience->cancel();
  } catch (const Error& error) {
    patience->cancel();
    if (error.code() == Code::size_mismatch) refuse_disagreement();
    throw Fatal(code_of(error), error.what());
  }
  generation_ = membership_->generation();
  watch_group();
}

/// If this host was lost soon after it had joined, waits before it joins again: each of its losses
/// restarts the workers of all nodes.
void Agent::hold_off() {
  const std::uint32_t flaps =
      call([client = client_] { return flaps_of(*client->store(), host_name()); });
  if (flaps > options_.max_flaps) {
    throw Fatal(exit_code::kTryAgain,
                format("this host was lost {} times within a minute of joining job {}, limit "
                       "--max-flaps {}; read the last lines of its worker logs, or wait 15 minutes",
                       flaps, options_.daemon.job, options_.max_flaps));
  }
  const Duration delay = flap_delay(flaps);
  if (delay == Duration::zero()) return;
  note(format("this host was lost {} within a minute of joining; waiting {} before it joins again",
              plural(flaps, "time"), human(delay)));
  wait(delay, [] { return false; });
}

/// Counts the hosts that were lost soon after they had joined, and says when they may join again.
void Agent::count_flaps() {
  const bool young = std::chrono::steady_clock::now() - generation_began_ < kFlapAge;
  if (!young || others_drain() || state_.reason.find(" is lost: ") == std::string::npos) return;
  std::set<std::string> hosts;
  for (const Missing& one : state_.missing) {
    const bool lost = std::ranges::count(state_.lost, one.rank) > 0;
    if (lost && one.rank != generation_.rank) hosts.insert(one.host);
  }
  for (const std::string& host : hosts) {
    background_.send([this, client = client_, host, number = generation_.number] {
      const std::uint32_t flaps = count_flap(*client->store(), host, number);
      boost::asio::post(loop_, [this, host, flaps] {
        note(format("host {} was lost {} within a minute of joining; it may join again in {}",
                    printable(host, limits::kNameShown), plural(flaps, "time"),
                    human(flap_delay(flaps))));
      });
    });
  }
}

/// Prints which nodes have joined, again and again until the timer is cancelled.
void Agent::say_who_has_joined(const std::shared_ptr<boost::asio::steady_timer>& timer) {
  timer->expires_after(kJoinNoteInterval);
  timer->async_wait([this, timer](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    background_.send([this, timer, client = client_] {
      const std::vector<std::string> here = agents(*client->store());
      boost::asio::post(loop_, [this, timer, here] {
        if (membership_) return;
        note(format("job {}: {} of {} have joined: {}", options_.daemon.job, here.size(),
                    plural(options_.max_nodes, "node"), list_of(here)));
        say_who_has_joined(timer);
      });
    });
  });
}

/// If another node was started with a different value of a flag, throws Fatal naming the flag and
/// the node. Otherwise returns, so that the caller can report the error of the daemon.
void Agent::refuse_disagreement() {
  const auto look = [client = client_, flags = shared_flags(options_)] {
    return disagreement(*client->store(), flags);
  };
  std::string text;
  try {
    text = call(look);
  } catch (const Error&) {  // ignored, because the caller reports an earlier error
  }
  if (text.empty()) return;
  throw Fatal(exit_code::kUsage, text + "; give all nodes of the job the same value");
}

/// Exchanges LaunchFacts with the other agents and makes the plan of the generation. Returns false
/// if the exchange failed or the generation ended first.
bool Agent::prepare() {
  LaunchFacts own;
  promised_.reset();
  if (generation_.rank == 0) own.port = std::to_string(promised_.emplace().number());
  if (generation_.rank == 0) own.nonce = random_name();
  if (base_) own.base = *base_;
  own.store = options_.store_in_rank0 ? "rank0" : "proxy";
  own.launch = !base_ && generation_.rank == 0 ? name_launch() : plan_.launch;
  try {
    const auto exchange = [membership = membership_, text = own.encode()] {
      std::vector<Member> members = membership->members();
      return std::pair(std::move(members), membership->exchange("c10drun/greeting", {text}));
    };
    const auto exchanged = call(exchange, [this] { return over(); });
    if (!exchanged) return false;
    const auto& [members, texts] = *exchanged;
    plan_ = make_plan(generation_, members);
    const LaunchFacts first = LaunchFacts::decode(texts.at(0));
    plan_.threads = threads_of(plan_.local_size);
    plan_.master_port = first.port;
    plan_.store_in_rank0 = first.store != "proxy";  // an older c10drun says nothing
    if (plan_.store_in_rank0 != options_.store_in_rank0) {
      const char* const store = plan_.store_in_rank0 ? "rank0" : "proxy";
      note(format("--store is {} on node 0, so all nodes use {}", store, store));
    }
    plan_.nonce = first.nonce;
    plan_.launch = first.launch;
    // Agents that were in an earlier generation know `launch` and `base` of LaunchFacts. New agents
    // use the same values.
    for (const std::string& text : texts) {
      const LaunchFacts facts = LaunchFacts::decode(text);
      if (facts.base < 0) continue;
      base_ = static_cast<std::uint32_t>(facts.base);
      plan_.launch = facts.launch;
    }
    if (!base_) base_ = generation_.failures;  // all agents are new, so this launch is new, too
    plan_.restarts = generation_.failures - std::min(generation_.failures, *base_);
    return true;
  } catch (const Error& error) {
    if (!over()) {
      note(format("generation {}: {}", generation_.number, of_nodes(error.what())));
    }
    return false;
  }
}

/// Runs the workers of one generation.
Agent::Outcome Agent::work() {
  others_stopped_ = 0;
  if (!prepare()) return after_end();
  if (too_many(generation_.failures)) {
    if (const auto report = read_failure_report(generation_.reason)) report_ = report;
    return Outcome::failed;
  }
  const std::uint32_t last = plan_.first_rank + plan_.local_size - 1;
  const std::string ranks = last == plan_.first_rank
                                ? format("rank {}", plan_.first_rank)
                                : format("ranks {}-{}", plan_.first_rank, last);
  note(format("generation {}: node {} of {}, {} of {}, rank 0 at {}:{}, run {}, {} of {}",
              plan_.generation, plan_.node_rank, plan_.nodes, ranks, plan_.world_size,
              plan_.master_address, plan_.master_port, worker_run(options_.run, plan_),
              plural(plan_.restarts, "restart"), options_.max_restarts));
  if (plan_.threads > 0 && !home_.inherited.contains("OMP_NUM_THREADS") &&
      !std::exchange(threads_told_, true)) {
    note(
        format("OMP_NUM_THREADS={} for each worker: {} share the cores of this node; to change it, "
               "set OMP_NUM_THREADS",
               plan_.threads, plural(plan_.local_size, "worker")));
  }
  if (!options_.log_dir.empty()) {
    note(format("logs in {}/{}/{}", options_.log_dir, plan_.launch, plan_.generation));
  }
  generation_began_ = std::chrono::steady_clock::now();
  workers_ = std::make_unique<Workers>(home_, options_, plan_);
  workers_->start();
  wait([this] { return workers_->failure() || workers_->running() == 0 || over() || newcomers(); });
  if (workers_->failure() && !over()) return report_failure();
  if (workers_->running() == 0 && !workers_->failure() && !generation_has_ended()) {
    if (wait_for_others()) return Outcome::done;
  } else if (!over()) {
    note(plural(state_.waiting, "node") + " joined; restarting all workers");
  }
  stop_workers(SIGTERM);
  return after_end();
}

/// Stops the workers. Reports the failed worker to the group. Does not report a worker that may
/// have failed because another node was lost or is draining.
Agent::Outcome Agent::report_failure() {
  const FailureReport report = make_failure_report(*workers_->failure(), host_name());
  note(report.head);
  workers_->stop();
  const std::size_t stopped = workers_->stopped();
  if (generation_.size > 1) wait(kSettle, [this] { return over(); });
  if (over() || others_drain()) {
    note(
        "this exit does not count as a failure: the generation has already ended, or another node "
        "is draining");
  } else {
    others_stopped_ = stopped;
    // Do not wait for the report: the workers must be stopped even if no daemon is reachable.
    background_.send([membership = membership_, cause = report.cause(),
                      number = generation_.number] { membership->fail(cause, number); });
  }
  stop_workers(SIGTERM);
  wait(kStatusDelay, [this] { return over(); });
  if (!over() && options_.max_nodes == 1 && too_many(generation_.failures + 1)) {
    report_ = report;  // the daemon does not answer, but nobody else decides
    return Outcome::failed;
  }
  return after_end();
}

/// Decides whether the launch has failed or goes on with the next generation. Uses the status of
/// the group, so that all agents decide alike.
Agent::Outcome Agent::after_end() {
  if (!over()) return Outcome::again;
  const std::optional<FailureReport> report = reported_failure();
  if (!state_.reason.empty()) {
    note(format("generation {} has ended: {}", generation_.number,
                report ? report->text() : of_nodes(state_.reason)));
  }
  if (state_.fenced) {
    note(
        "this node had no contact with the daemon for too long; the daemon may have declared it "
        "lost");
  }
  if (report) report_ = report;
  if (!report && options_.max_nodes > 1 && !state_.fenced) count_flaps();
  return report && too_many(generation_.failures + 1) ? Outcome::failed : Outcome::again;
}

/// Joins the next generation. Returns false if the launch fails before this agent has joined.
bool Agent::rejoin() {
  const auto ended = [this] { return reported_failure() && too_many(generation_.failures + 1); };
  // next() throws Aborted if the daemon has taken this node out of the group. A retry joins again.
  constexpr int kTries = 3;
  for (int tried = 1;; ++tried) {
    try {
      const auto next = call([membership = membership_] { return membership->next(); }, ended);
      if (!next) {
        report_ = reported_failure();
        return false;
      }
      generation_ = *next;
      take_state(membership_->state());
      return true;
    } catch (const Aborted& error) {
      if (tried == kTries) throw Fatal(exit_code::kUnreachable, of_nodes(error.what()));
    } catch (const Error& error) {
      throw Fatal(code_of(error), of_nodes(error.what()));
    }
  }
}

/// Waits until the workers of all nodes have exited with 0, at most options_.exit_timeout. Returns
/// false if the generation ends first. Nobody else needs to know if this node is alone, and a
/// daemon that does not answer does not make workers fail that have ended well.
bool Agent::wait_for_others() {
  if (generation_.size == 1) return true;
  note("all workers of this node have finished; waiting for other nodes, at most " +
       human(options_.exit_timeout));
  const auto deadline = std::chrono::steady_clock::now() + options_.exit_timeout;
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop_, deadline + kStatusDelay);
  timer->async_wait([timer](const boost::system::error_code&) {});  // wakes the loop
  std::string why = "the daemon does not answer";
  const auto enter = [membership = membership_, limit = options_.exit_timeout] {
    membership->barrier("c10drun/done", limit);
  };
  const auto stop_waiting = [&] {
    return generation_has_ended() || std::chrono::steady_clock::now() >= deadline + kStatusDelay;
  };
  for (bool waits = true; waits && !stop_waiting();) {
    try {
      if (call(enter, stop_waiting)) return true;
    } catch (const TimedOut& late) {
      why = of_nodes(late.what());
      waits = false;
      // The others have waited for this node, have given up, and have ended with 0.
      const auto& missing = late.missing();
      if (missing.size() == 1 && missing.front().rank == generation_.rank) return true;
    } catch (const Error& error) {
      why = of_nodes(error.what());
      wait(kStatusDelay, stop_waiting);  // the end of the generation, or of an outage
    }
  }
  timer->cancel();
  if (generation_has_ended()) return false;
  note(format(
      "the other nodes did not finish within --exit-timeout {}: {}; all workers of this node "
      "have exited with code 0, so c10drun ends here",
      human(options_.exit_timeout), why));
  return true;
}

}  // namespace c10dd::run
