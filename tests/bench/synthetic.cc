// SPDX-License-Identifier: Apache-2.0
// Scenario synthetic. Sessions of ranks report the activity of their process groups, as the SDK
// does: every 3 s while all goes well, every 0.5 s while an operation does not end. Nothing is
// computed. At a set time a fault comes. Measured from the fault until GET /v1/jobs/bench has a
// sentence about it, and what the daemon uses before the fault and after it.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <charconv>
#include <stdexcept>

#include "tests/bench/crowd.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = Crowd::Clock;
using std::chrono::milliseconds;

constexpr unsigned kSyntheticRanks = 1'000;
constexpr unsigned kRanksOfAHost = 8;
constexpr milliseconds kReportTick{50};
constexpr unsigned kHealthyTicks = 60;  // between two reports of a rank
constexpr unsigned kHungTicks = 10;
constexpr unsigned kTicksOfASecond = 20;
constexpr Clock::duration kNamedLimit = std::chrono::seconds(60);
constexpr Clock::duration kHungFor = std::chrono::seconds(5);  // what the daemon uses in a hang

/// One kind of groups: consecutive ranks form a group.
struct GroupKind {
  std::string name;
  unsigned size = 0;
};

std::vector<GroupKind> parse_groups(const std::string& text, unsigned ranks) {
  std::vector<GroupKind> kinds = {{"world", ranks}};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, end - at);
    const std::size_t equals = one.find('=');
    unsigned size = 0;
    if (equals != std::string::npos) {
      std::from_chars(one.data() + equals + 1, one.data() + one.size(), size);
    }
    if (size < 2 || ranks % size != 0) {
      throw std::runtime_error("synthetic: \"" + one +
                               "\" is no KIND=SIZE with a size of 2 or "
                               "more that divides the " +
                               std::to_string(ranks) + " ranks");
    }
    kinds.push_back({one.substr(0, equals), size});
    at = end + 1;
  }
  return kinds;
}

/// The ranks, and what they have to report.
class ReportingJob {
 public:
  ReportingJob(std::vector<GroupKind> kinds, unsigned ranks, std::string fault)
      : kinds_(std::move(kinds)), ranks_(ranks), fault_(std::move(fault)), victim_(ranks / 2 + 1) {}

  unsigned ranks() const { return ranks_; }
  unsigned victim() const { return victim_; }
  void strike() { struck_ = Clock::now(); }
  Clock::time_point struck() const { return *struck_; }
  bool hangs() const { return struck_ && fault_ != "straggler"; }
  /// Lets time pass: every rank has run some more collectives.
  void step() {
    if (!hangs()) ++steps_;
  }

  Activity opening(unsigned rank) const {
    Activity out = report(rank);
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const unsigned size = kinds_[kind].size;
      out.opened.push_back(
          {id_of(kind, rank), kinds_[kind].name, kinds_[kind].name, 0, size, rank % size, rank});
    }
    return out;
  }

  Activity report(unsigned rank) const {
    Activity out;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      GroupActivity group;
      group.process_group = id_of(kind, rank);
      group.collectives.issued = steps_ * 20;
      add_marks(group, rank);
      if (hangs()) hang(group, kind, rank);
      if (hangs() && group.oldest.empty()) continue;  // as before
      out.groups.push_back(std::move(group));
    }
    out.blocked = hangs();
    return out;
  }

 private:
  static std::uint64_t id_of(std::size_t kind, std::uint64_t rank, unsigned size) {
    return (kind + 1) << 32 | rank / size;
  }
  std::uint64_t id_of(std::size_t kind, unsigned rank) const {
    return id_of(kind, rank, kinds_[kind].size);
  }

  /// About a mark every 2.5 s. A rank that is late spends less time in the collectives.
  void add_marks(GroupActivity& group, unsigned rank) const {
    constexpr std::uint64_t kStride = 1'024;  // collectives
    const std::uint64_t sequence = steps_ * 20 / kStride * kStride;
    if (sequence == 0) return;
    const bool late = struck_ && fault_ == "straggler" && rank == victim_;
    const Duration clock = kReportTick * static_cast<std::int64_t>(sequence / 20);
    group.hash_marks.push_back({sequence, sequence});
    group.time_marks.push_back({sequence, clock, clock / (late ? 20 : 4)});
  }

  /// What the rank waits for: all for the victim, in the group of all. In a deadlock the victim
  /// waits in its smallest group for its neighbour.
  void hang(GroupActivity& group, std::size_t kind, unsigned rank) const {
    const bool victim = rank == victim_;
    const std::size_t small = kinds_.size() - 1;
    if (kind != (victim && fault_ == "deadlock" ? small : 0)) return;
    if (victim && fault_ != "mismatch" && fault_ != "deadlock") return;
    UnfinishedOperation one{.begun = true,
                            .sequence = group.collectives.issued,
                            .age = Clock::now() - *struck_,
                            .usual = std::chrono::milliseconds(2),
                            .name = "all_reduce",
                            .arguments = "of 1000 float32 sum"};
    if (victim && fault_ == "mismatch") one.arguments = "of 1024 float32 sum";
    ++group.collectives.issued;
    group.collectives.unfinished = 1;
    group.oldest.push_back(std::move(one));
  }

  const std::vector<GroupKind> kinds_;
  const unsigned ranks_;
  const std::string fault_;
  const unsigned victim_;
  std::uint64_t steps_ = 0;
  std::optional<Clock::time_point> struck_;
};

/// GET /v1/jobs/bench, each time over a new connection.
class JobPage {
 public:
  explicit JobPage(const Address& daemon) : daemon_(daemon) {}

  /// Returns the kind of the diagnosis, or an empty text.
  std::string kind() {
    const Clock::time_point start = Clock::now();
    Line line(daemon_);
    line.send("GET /v1/jobs/bench HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    std::string body;
    line.receive(1, [&](std::string_view in) -> std::size_t {
      const std::size_t head = in.find("\r\n\r\n");
      const std::size_t field = in.find("Content-Length: ");
      if (head == std::string_view::npos || field > head) return 0;
      std::size_t size = 0;
      std::from_chars(in.data() + field + 16, in.data() + head, size);
      if (in.size() < head + 4 + size) return 0;
      body = in.substr(head + 4, size);
      return head + 4 + size;
    });
    took.add((Clock::now() - start).count());
    const boost::json::value page = boost::json::parse(body);
    const auto* const runs = page.is_object() ? page.as_object().if_contains("runs") : nullptr;
    if (runs == nullptr || runs->as_array().empty()) return {};
    const auto& diagnosis = runs->as_array()[0].at("diagnosis").as_object();
    const auto* const found = diagnosis.if_contains("kind");
    return found == nullptr ? std::string() : std::string(found->as_string());
  }

  Histogram took;

 private:
  const Address daemon_;
};

/// One round.
class SyntheticRound {
 public:
  SyntheticRound(const Options& options, unsigned ranks, unsigned hosts, const DaemonServer& daemon)
      : fault_(options.fault),
        daemon_(daemon),
        job_(parse_groups(options.groups, ranks), ranks, options.fault),
        crowd_(daemon.address(), hosts, ranks),
        page_(daemon.address()) {
    crowd_.start_to_beat();
  }

  /// Lets all ranks open their groups, and work for some time.
  void work(Clock::duration time) {
    crowd_.ask([this](unsigned rank) { return job_.opening(rank); });
    run(time, kHealthyTicks, [] { return false; });
    const double cpu = cpu_seconds(daemon_.process());
    const Clock::time_point start = Clock::now();
    run(time, kHealthyTicks, [this] {
      if (tick_ % kTicksOfASecond != 0 || page_.kind().empty()) return false;
      throw std::runtime_error("synthetic: a diagnosis before the fault");
    });
    healthy = share(cpu, start);
  }

  /// Returns how long it took until the page had a sentence.
  Clock::duration strike() {
    job_.strike();
    if (fault_ == "forming") {
      crowd_.send(crowd_.encode(0, job_.ranks(), [this](unsigned rank) -> Request {
        if (rank == job_.victim()) return Ping{};
        return Barrier{"start", 0, 0, rank, job_.ranks(), kNamedLimit, "", {}};
      }));
    }
    if (fault_ == "kill") crowd_.drop(job_.victim());
    if (fault_ == "silence") crowd_.silence(job_.victim());
    const double cpu = cpu_seconds(daemon_.process());
    const bool found = run(kNamedLimit, kHungTicks, [this] { return !page_.kind().empty(); });
    if (!found) throw std::runtime_error("synthetic: no diagnosis within 60 s of the fault");
    const Clock::duration took = Clock::now() - job_.struck();
    if (fault_ != "forming") run(kHungFor, kHungTicks, [] { return false; });
    hung = share(cpu, job_.struck());
    return took;
  }

  double healthy = 0;  ///< share of a core
  double hung = 0;
  const Histogram& pages() const { return page_.took; }

 private:
  double share(double cpu, Clock::time_point start) const {
    const std::chrono::duration<double> time = Clock::now() - start;
    return (cpu_seconds(daemon_.process()) - cpu) / time.count() * 100;
  }

  /// Runs ticks until `done`, or for some time. Returns whether it is done.
  template <class Done>
  bool run(Clock::duration time, unsigned ticks, const Done& done) {
    const Clock::time_point end = Clock::now() + time;
    for (Clock::time_point next = Clock::now(); next < end; next += kReportTick) {
      crowd_.rest(std::max<Clock::duration>(next - Clock::now(), milliseconds(0)));
      job_.step();
      const unsigned slice = tick_++ % ticks;
      if (fault_ != "forming" || !job_.hangs()) {
        const auto first = static_cast<unsigned>(std::uint64_t{job_.ranks()} * slice / ticks);
        const auto last = static_cast<unsigned>(std::uint64_t{job_.ranks()} * (slice + 1) / ticks);
        crowd_.ask_some(first, last, [this](unsigned rank) { return job_.report(rank); });
      }
      if (done()) return true;
    }
    return false;
  }

  const std::string fault_;
  const DaemonServer& daemon_;
  ReportingJob job_;
  Crowd crowd_;
  JobPage page_;
  unsigned tick_ = 0;
};

}  // namespace

ScenarioResult run_synthetic(const Options& options) {
  const unsigned ranks = options.members.value_or(kSyntheticRanks);
  const unsigned hosts =
      std::min(options.connections.value_or(std::max(1U, ranks / kRanksOfAHost)), ranks);
  if (options.daemon) {
    throw std::runtime_error("synthetic reads what its daemon uses: leave out --daemon");
  }
  check_file_limit("synthetic", hosts);
  ScenarioResult result;
  result.name = "synthetic";
  result.counted = "faults";
  result.parameters = {{"ranks", ranks}, {"hosts", hosts}, {"awake", options.awake}};
  const std::string how = "--groups " + options.groups + " --fault " + options.fault;
  const bool hangs = options.fault != "none";
  if (hangs) result.series.push_back({"fault to sentence", how, {}});
  result.series.push_back({"GET /v1/jobs/bench", how, {}});
  Fact healthy{"daemon before the fault", "% of a core", {}, 1};
  Fact hung{"daemon in the hang", "% of a core", {}, 1};
  Fact memory{"memory of a rank", "B", {}};
  for (unsigned i = 0; i < options.rounds; ++i) {
    const DaemonServer daemon("memory:", "none");
    const std::uint64_t before = memory_of(daemon.process());
    SyntheticRound round(options, ranks, hosts, daemon);
    round.work(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.at)));
    healthy.rounds.push_back(round.healthy);
    memory.rounds.push_back(
        (static_cast<double>(memory_of(daemon.process())) - static_cast<double>(before)) / ranks);
    if (hangs) {
      result.series.front().rounds.push_back(sample_of_one(round.strike()));
      hung.rounds.push_back(round.hung);
    }
    result.series.back().rounds.push_back(sample_of(round.pages(), 1));
  }
  result.facts = {healthy, memory};
  if (hangs) result.facts.push_back(hung);
  return result;
}

}  // namespace c10dd::bench
