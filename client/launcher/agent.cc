// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/agent.h"

#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <ctime>
#include <random>
#include <sstream>

#include "client/launcher/address.h"
#include "client/launcher/plan.h"
#include "client/launcher/shared_flags.h"
#include "protocol/exit_codes.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::run {
namespace {

constexpr const char* kGroup = "c10drun";
/// When a node dies, the workers of the others fail before the daemon knows of it (250 ms after its
/// connection closed). So long a failure waits for such news before it is counted as one.
constexpr Duration kSettle = std::chrono::milliseconds(600);
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kNewsDelay = std::chrono::seconds(1);  // of what this agent has done itself

std::string random_name() {
  std::random_device device;
  std::ostringstream text;
  text << std::hex << device();
  return text.str();
}

/// When, for people, and something that nobody else has.
std::string name_launch() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ-", &utc);
  return text + random_name();
}

/// What the nodes tell each other once they know their ranks.
struct LaunchFacts {
  std::string port = "0";
  std::string nonce = "0";
  std::int64_t base = -1;  ///< failures before this launch; -1: this agent is new
  std::string launch;      ///< may be empty

  std::string encode() const {
    return port + " " + nonce + " " + std::to_string(base) + " " + launch;
  }
  static LaunchFacts decode(const std::string& text) {
    LaunchFacts facts;
    std::istringstream(text) >> facts.port >> facts.nonce >> facts.base >> facts.launch;
    return facts;
  }
};

int code_of(const Error& error) {
  switch (error.code()) {
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
             std::string scratch, Warden& warden, Console& console)
    : options_(std::move(options)), warden_(warden), console_(console), home_{loop_,
                                                                              warden,
                                                                              console,
                                                                              std::move(program),
                                                                              std::move(inherited),
                                                                              std::move(scratch)} {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction now {};
    const bool ignored =
        sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;  // nohup
    if (!ignored) signals_.add(number);
  }
}

int Agent::run() {
  hear_signals();
  try {
    return go();
  } catch (const Stopped&) {
    return leave_by_request();
  }
}

int Agent::go() {
  if (options_.standalone) {
    daemon_ =
        std::make_unique<Standalone>(loop_, warden_, home_.inherited, home_.scratch + "/c10dd.log");
    options_.daemon.host = "127.0.0.1";
    options_.daemon.port = daemon_->port();
  }
  connect();
  rendezvous();
  for (;;) {
    const Outcome outcome = work();
    if (outcome == Outcome::done) return finish();
    if (outcome == Outcome::failed || !meet_again()) return give_up();
  }
}

void Agent::connect() {
  ClientOptions own;
  own.run = options_.run;
  own.timeout = options_.connect_timeout;
  const std::string address = options_.daemon.address();
  const std::string url = "c10dd://" + address + "/" + options_.daemon.job;
  try {
    client_ = call([url, own] { return Client::connect(url, own); });
  } catch (const TimedOut& late) {
    throw Fatal(exit_code::kUnreachable,
                "no daemon at " + address + ": " + late.what() +
                    "; start one with: c10dd --listen HOST:PORT --engine memory:, "
                    "name it with --daemon HOST:PORT, or use --standalone");
  } catch (const Error& error) {
    throw Fatal(exit_code::kUnreachable, "the daemon at " + address + " refuses: " + error.what());
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
  if (options_.max_nodes > 1) {
    const bool range = options_.min_nodes < options_.max_nodes;
    note("job " + options_.daemon.job + ": waiting for " +
         (range ? std::to_string(options_.min_nodes) + " to " : "") +
         plural(options_.max_nodes, "node") + " at " + options_.daemon.address());
  }
  const auto patience = std::make_shared<boost::asio::steady_timer>(loop_, kPatience);
  patience->async_wait([this, patience](const boost::system::error_code& cancelled) {
    if (cancelled || options_.max_nodes > 1) return;
    note("job " + options_.daemon.job + ": no place yet; is another launch using this name?");
  });
  try {
    const auto meet = [client = client_, join, flags = shared_flags(options_)] {
      publish(*client->store(), flags);
      return client->rendezvous(join);
    };
    membership_ = call(meet);
    patience->cancel();
  } catch (const Error& error) {
    if (error.code() == Code::size_mismatch) refuse_disagreement();
    throw Fatal(code_of(error), error.what());
  }
  generation_ = membership_->generation();
  follow();
}

/// Names the flag and the node, if a node is there that says otherwise.
void Agent::refuse_disagreement() {
  const auto look = [client = client_, flags = shared_flags(options_)] {
    return disagreement(*client->store(), flags);
  };
  std::string text;
  try {
    text = call(look);
  } catch (const Error&) {  // the refusal itself says more
  }
  if (!text.empty()) throw Fatal(exit_code::kUsage, text + "; give all nodes of the job the same");
}

/// The list, the port and the nonce; false when the generation ended meanwhile.
bool Agent::prepare() {
  LaunchFacts own;
  if (generation_.rank == 0) own.port = free_port();
  if (generation_.rank == 0) own.nonce = random_name();
  if (base_) own.base = *base_;
  own.launch = !base_ && generation_.rank == 0 ? name_launch() : plan_.launch;
  try {
    const auto meet = [membership = membership_, text = own.encode()] {
      std::vector<Member> members = membership->members();
      return std::pair(std::move(members), membership->exchange("c10drun/greeting", {text}));
    };
    const auto met = call(meet, [this] { return over(); });
    if (!met) return false;
    plan_ = make_plan(generation_, met->first);
    const LaunchFacts first = LaunchFacts::decode(met->second.at(0));
    plan_.master_port = first.port;
    plan_.nonce = first.nonce;
    plan_.launch = first.launch;
    for (const std::string& text : met->second) {
      const LaunchFacts facts = LaunchFacts::decode(text);
      if (facts.base < 0) continue;
      base_ = static_cast<std::uint32_t>(facts.base);
      plan_.launch = facts.launch;
    }
    if (!base_) base_ = generation_.failures;  // none of them was here before: a new launch
    plan_.restarts = generation_.failures - std::min(generation_.failures, *base_);
    return true;
  } catch (const Error& error) {
    if (!over()) {
      note("generation " + std::to_string(generation_.number) + ": " + of_nodes(error.what()));
    }
    return false;
  }
}

Agent::Outcome Agent::work() {
  others_stopped_ = 0;
  if (!prepare()) return after_end();
  if (too_many(generation_.failures)) {
    if (const auto report = read_verdict(generation_.reason)) report_ = report;
    return Outcome::failed;
  }
  const std::uint32_t last = plan_.first_rank + plan_.local_size - 1;
  const std::string ranks = (last == plan_.first_rank ? "rank " : "ranks ") +
                            std::to_string(plan_.first_rank) +
                            (last == plan_.first_rank ? "" : "-" + std::to_string(last));
  note("generation " + std::to_string(plan_.generation) + ": node " +
       std::to_string(plan_.node_rank) + " of " + std::to_string(plan_.nodes) + ", " + ranks +
       " of " + std::to_string(plan_.world_size) + ", master " + plan_.master_address + ":" +
       plan_.master_port + ", run " + worker_run(options_.run, plan_) + ", " +
       plural(plan_.restarts, "restart") + " of " + std::to_string(options_.max_restarts));
  if (!options_.log_dir.empty()) {
    note("logs in " + options_.log_dir + "/" + plan_.launch + "/" +
         std::to_string(plan_.generation));
  }
  crew_ = std::make_unique<Crew>(home_, options_, plan_);
  crew_->start();
  wait([this] { return crew_->failure() || crew_->running() == 0 || over() || newcomers(); });
  if (crew_->failure() && !over()) return report_failure();
  if (crew_->running() == 0 && !over()) {
    if (wait_for_others()) return Outcome::done;
  } else if (!over()) {
    note(plural(state_.waiting, "node") + " came; all start again with them");
  }
  stop_crew(SIGTERM);
  return after_end();
}

Agent::Outcome Agent::report_failure() {
  const FailureReport report = make_failure_report(*crew_->failure(), host_name());
  note(report.head);
  crew_->stop();
  const std::size_t stopped = crew_->stopped();
  if (generation_.size > 1) wait(kSettle, [this] { return over(); });
  if (over() || others_drain()) {
    note("that is taken for a consequence, not for a failure");
  } else {
    others_stopped_ = stopped;
    // Not waited for: if the daemon is away, the workers must end nevertheless.
    background_.send([membership = membership_, cause = report.cause(),
                      number = generation_.number] { membership->fail(cause, number); });
  }
  stop_crew(SIGTERM);
  wait(kNewsDelay, [this] { return over(); });
  return after_end();
}

/// What the end of a generation means, with the eyes of all agents.
Agent::Outcome Agent::after_end() {
  if (!over()) return Outcome::again;
  const std::optional<FailureReport> report = verdict_of_news();
  if (!state_.reason.empty()) {
    note("generation " + std::to_string(generation_.number) +
         " has ended: " + (report ? report->text() : of_nodes(state_.reason)));
  }
  if (state_.fenced) note("the daemon was not heard for too long; this node may be given up");
  if (report) report_ = report;
  return report && too_many(generation_.failures + 1) ? Outcome::failed : Outcome::again;
}

/// False when the others end the job meanwhile.
bool Agent::meet_again() {
  const auto ended = [this] { return verdict_of_news() && too_many(generation_.failures + 1); };
  constexpr int kTries = 3;  // it may have been given up while it was away
  for (int tried = 1;; ++tried) {
    try {
      const auto next = call([membership = membership_] { return membership->next(); }, ended);
      if (!next) {
        report_ = verdict_of_news();
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

/// Whether the workers of all nodes have ended well; false when the generation ended before.
bool Agent::wait_for_others() {
  if (generation_.size > 1) note("all workers of this node have finished; waiting for the others");
  const auto meet = [membership = membership_] {
    membership->barrier("c10drun/done", limits::kTimeoutMax);
  };
  try {
    return call(meet, [this] { return over(); }).has_value();
  } catch (const Error& error) {
    if (!over()) note(of_nodes(error.what()));
    return false;
  }
}

}  // namespace c10dd::run
