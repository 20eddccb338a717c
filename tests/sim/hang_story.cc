// SPDX-License-Identifier: Apache-2.0
// Each step of a rank has up to three calls: a message from the peer to the victim, a collective
// of its pair, and one of all ranks.
#include "tests/sim/hang_story.h"

#include <algorithm>
#include <array>

#include "daemon/core/job/job.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = Diagnosis::Kind;
using State = Diagnosis::State;

constexpr const char* kTrainingJob = "training";
constexpr Duration kHangLook = milliseconds(10);
constexpr Duration kSlack = milliseconds(20);  // of the network and the loops
constexpr Duration kCheckpoint = seconds(5);
constexpr Duration kLate = seconds(20);  // longer than Diagnosis::kCircle
constexpr std::uint64_t kFirstGroup = 100;

Swarm calm_swarm(Random& random) {
  Swarm swarm;
  swarm.shards = 1 + static_cast<unsigned>(random.below(2));
  swarm.session_expiry = minutes(10);
  swarm.disk_most = milliseconds(3);
  swarm.net_most = milliseconds(1);
  swarm.fragments = random.chance(30);
  swarm.untroubled = true;
  if (random.chance(25)) {
    swarm.daemons = 2;
    swarm.shared = true;
    swarm.lease = seconds(1);
  }
  return swarm;
}

}  // namespace

const char* HangStory::name_of(Hang hang) {
  constexpr std::array<const char*, 15> kNames = {
      "none",   "checkpoint", "lost", "vanished", "paused",   "absent",  "mismatch", "crossed",
      "unsent", "queued",     "hung", "slow",     "diverged", "threads", "brief"};
  return kNames[static_cast<std::size_t>(hang)];
}

HangStory::HangStory(std::uint64_t seed)
    : seed_(seed),
      world_(seed),
      random_(Random(seed).next()),
      swarm_(calm_swarm(random_)),
      disk_(world_, swarm_, records_),
      network_(world_, swarm_) {
  records_.session_expiry = swarm_.session_expiry;
  records_.fleet = swarm_.fleet();
  records_.takeovers = swarm_.fleet() ? 1 : 0;
}

HangStory::~HangStory() = default;

void HangStory::choose(std::uint64_t seed) {
  hang_ = static_cast<Hang>(random_.below(13));
  if (seed % 8 == 3) hang_ = seed % 16 == 3 ? Hang::threads : Hang::brief;
  choose_groups();
  const bool slow = hang_ == Hang::slow;
  step_ = slow ? random_.between(milliseconds(100), milliseconds(200))
               : random_.between(milliseconds(15), milliseconds(80));
  strikes_at_ = random_.between(seconds(3), seconds(9));
  lasts_ = strikes_at_ + (goes_on() ? seconds(25) : seconds(12)) +
           (swarm_.fleet() ? seconds(40) : seconds(14));
  if (hang_ == Hang::threads) lasts_ += kLate;
}

void HangStory::choose_groups() {
  const bool threads = hang_ == Hang::threads;
  const bool pairs = hang_ == Hang::crossed || (random_.chance(50) && !threads);
  const auto size = static_cast<Rank>(pairs ? 4 + random_.below(3) : 2 + random_.below(4));
  groups_.push_back({kFirstGroup + 2, "dp", {}});  // a pair is asked first
  for (Rank rank = 0; rank < size; ++rank) groups_.front().ranks.push_back(rank);
  if (threads) groups_.push_back({kFirstGroup, "tp", groups_.front().ranks});
  if (pairs) {
    groups_.push_back({kFirstGroup, "tp", {0, 1}});
    groups_.push_back({kFirstGroup + 1, "tp", {2, 3}});
  }
  victim_ = static_cast<Rank>(random_.below(pairs ? 4 : size));
  peer_ = pairs ? victim_ ^ 1 : (victim_ + 1) % size;
}

void HangStory::start_daemon(unsigned place) {
  const DriftingClock clock(random_.between(seconds(1), minutes(60)), 0);
  const auto daemon =
      std::make_shared<Daemon>(world_, swarm_, disk_, records_, clock, ++daemons_, place);
  if (fleet_.size() <= place) fleet_.resize(place + 1);
  fleet_[place] = daemon;
  daemon->start();
  network_.listen(address_of(place), [daemon](const LinkRef& link) { daemon->accept(link); });
}

/// Each rank opens its groups when all ranks have come.
void HangStory::start_ranks() {
  const auto size = static_cast<std::uint32_t>(groups_.front().ranks.size());
  const bool hellos_tell = random_.chance(50) || hang_ == Hang::absent;
  for (Rank rank = 0; rank < size; ++rank) {
    Client::Identity identity{.number = rank + 1, .job = kTrainingJob};
    if (hellos_tell) identity.rank = rank;
    const DriftingClock clock(random_.between(seconds(1), minutes(60)), 0);
    auto client = std::make_shared<Client>(world_, swarm_, network_, records_, clock, identity,
                                           std::make_shared<Team>(), 0);
    ranks_.push_back(std::make_shared<RankProcess>(
        world_, fabric_, records_, client, rank,
        [this](RankProcess& asks, std::size_t thread) { return next_call(asks, thread); }));
    if (hang_ == Hang::absent && rank == victim_) continue;
    client->start();
    client->ask(Exchange{
        "process_group/dp", 1, 0, rank, size, Shape::all, 0, {"address"}, minutes(10), 0, "", {}});
    const std::size_t op = records_.ops.size() - 1;
    const auto begin = [this, op, process = ranks_.back()](const auto& again) -> void {
      if (records_.ops[op].answered != 0)
        return process->run(groups_, hang_ == Hang::threads ? 2 : 1);
      world_.after(milliseconds(5), [again] { again(again); });
    };
    begin(begin);
  }
}

/// Each thread has a group. One thread of each rank comes late once, on every second rank the other
/// one.
PlannedCall HangStory::next_of_thread(const RankProcess& rank, std::size_t thread) {
  PlannedCall planned;
  planned.group = &groups_[thread];
  planned.operation = {.collective = Collective::all_reduce, .output = {.count = 1000}};
  planned.compute = random_.between(step_ * 97 / 100, step_ * 103 / 100);
  const bool late = struck_ && thread == rank.rank() % 2 && late_.insert(rank.rank()).second;
  if (late) planned.compute = kLate;
  done_ = done_ || late;
  return planned;
}

PlannedCall HangStory::next_call(RankProcess& rank, std::size_t thread) {
  if (hang_ == Hang::threads) return next_of_thread(rank, thread);
  const Rank own = rank.rank();
  const auto pair = std::ranges::find_if(groups_.begin() + 1, groups_.end(),
                                         [&](const SimGroup& group) { return group.has(own); });
  std::vector<PlannedCall> step;
  if (hang_ == Hang::unsent && (own == victim_ || own == peer_)) {
    const bool sends = own == peer_;
    Operation message{.collective = sends ? Collective::send : Collective::recv};
    (sends ? message.input : message.output).count = 16;
    message.peer = sends ? victim_ : peer_;
    step.push_back({.group = &groups_.front(), .operation = message});
  }
  const Operation pair_sum{.collective = Collective::all_reduce, .output = {.count = 512}};
  if (pair != groups_.end()) step.push_back({.group = &*pair, .operation = pair_sum});
  Operation all{.collective = Collective::all_reduce, .output = {.count = 1000}};
  // A root may come late to one, so nobody gives up a circle with it.
  const bool rooted = victim_ % 2 == 1 && !goes_on() && hang_ != Hang::crossed;
  if (rooted) all.collective = Collective::broadcast;
  step.push_back({.group = &groups_.front(), .operation = all});
  const std::size_t at = rank.position++ % step.size();
  PlannedCall planned = step[at];
  const bool message = info_of(planned.operation.collective).message;
  if (!message) planned.compute = random_.between(step_ * 97 / 100, step_ * 103 / 100);
  if (struck_ && own == (hang_ == Hang::unsent ? peer_ : victim_)) {
    change(planned);
    if (hang_ == Hang::crossed && done_) planned.operation = all, planned.group = &groups_.front();
    if (hang_ == Hang::unsent && done_ && at == 0) return next_call(rank, thread);
  }
  return planned;
}

/// Lets the victim do wrong, once, or from now on if it is slow.
void HangStory::change(PlannedCall& planned) {
  const bool of_all = planned.group == &groups_.front();
  const bool message = info_of(planned.operation.collective).message;
  switch (hang_) {
    case Hang::slow:
      planned.compute = planned.compute * 12 / 10;
      break;
    case Hang::checkpoint:
      if (!done_) planned.compute = kCheckpoint;
      break;
    case Hang::mismatch: {
      if (!of_all || done_) return;
      Operation& operation = planned.operation;
      const std::uint64_t kind = random_.below(8);
      const std::uint64_t what = kind % 4;
      planned.ends_alone = kind >= 4;
      if (what == 0) operation.collective = Collective::barrier;
      if (what == 1) operation.output.count += 24;
      if (what == 2) operation.output.dtype = DType::float64;
      if (what == 3 && operation.collective == Collective::broadcast) operation.root = 1;
      if (what == 3 && operation.collective != Collective::broadcast) {
        operation.collective = Collective::reduce;
      }
      break;
    }
    case Hang::diverged:
      if (!of_all || done_) return;
      planned.operation.reduce = ReduceOp::max;
      break;
    case Hang::crossed:
      if (of_all || done_) return;
      break;
    case Hang::unsent:
      if (!message || done_) return;
      break;
    case Hang::queued:
      if (!of_all || done_) return;
      planned.queued = true;
      break;
    default:
      return;
  }
  done_ = true;
}

void HangStory::strike() {
  world_.note("strike", victim_, 0, name_of(hang_));
  struck_ = true;
  Client& client = ranks_[victim_]->client();
  if (hang_ == Hang::lost) client.kill();
  if (hang_ == Hang::vanished) client.vanish();
  if (hang_ == Hang::paused) client.pause(std::chrono::hours(1));
  if (hang_ == Hang::brief) client.pause(random_.between(milliseconds(1000), milliseconds(1900)));
  if (hang_ == Hang::hung) fabric_.hang();
  const bool at_once = hang_ == Hang::brief || hang_ == Hang::lost || hang_ == Hang::vanished ||
                       hang_ == Hang::paused || hang_ == Hang::hung || hang_ == Hang::absent;
  done_ = done_ || at_once;
}

/// Kills a daemon, or resets a connection. Another daemon of the fleet takes the job over, or it
/// starts again.
void HangStory::trouble_later() {
  if (random_.chance(40)) {
    world_.after(random_.between(seconds(1), lasts_ - seconds(8)), [this] {
      const std::vector<LinkRef> links = network_.links();
      if (!links.empty()) links[random_.below(links.size())]->reset();
    });
    return;
  }
  world_.after(random_.between(seconds(1), lasts_ - seconds(8)), [this] {
    const std::shared_ptr<Daemon> daemon = random_.pick(fleet_);
    if (daemon->dead()) return;
    daemon->die(random_.chance(30));
    graveyard_.push_back(daemon);
    network_.listen(address_of(daemon->place()), {});
    const unsigned place = daemon->place();
    world_.after(random_.between(milliseconds(5), seconds(3)),
                 [this, place] { start_daemon(place); });
  });
}

const core::Job* HangStory::job() const {
  for (const auto& daemon : fleet_) {
    if (const core::Job* job = daemon->dead() ? nullptr : daemon->job(kTrainingJob)) return job;
  }
  return nullptr;
}

/// Returns whether a daemon serves the job, and has the sessions of all living ranks.
bool HangStory::all_back() const {
  if (job() == nullptr) return false;
  const auto living = std::ranges::count_if(ranks_, [this](const auto& rank) {
    return rank->works() && (hang_ != Hang::absent || rank->rank() != victim_);
  });
  return job()->stats().sessions >= static_cast<std::size_t>(living);
}

/// Returns whether a rank that lives is in an operation for much longer than the others compute.
bool HangStory::is_effective() const {
  return std::ranges::any_of(ranks_, [this](const auto& rank) {
    const auto since = rank->in_operation_since();
    return since && rank->works() && world_.now() - *since > 5 * step_ + milliseconds(50);
  });
}

/// Returns how long the diagnosis may take now.
Duration HangStory::limit() const {
  if (goes_on()) return kSlowNamed;
  const bool gone = hang_ == Hang::lost || hang_ == Hang::vanished || hang_ == Hang::paused;
  // A daemon that has just loaded the job waits for sessions that it knows from rows, and for the
  // first report of each rank.
  const bool awaited =
      gone && effective_ && (!complete_ || loaded_since_ > *effective_ - seconds(3));
  return kNamed + (awaited ? records_.restart_grace() : Duration(0));
}

std::string HangStory::text_of(const Diagnosis& found) const {
  return format("{} {}: {}", c10dd::name_of(found.state), c10dd::name_of(found.kind),
                found.sentence);
}

void HangStory::wrong(const std::string& what) {
  world_.violated("hangs",
                  format("{} of rank {} of {}: {}", name_of(hang_), victim_, ranks_.size(), what));
}

/// Returns whether the diagnosis says what it must say in the end.
bool HangStory::expects(const Diagnosis& found) const {
  std::vector<Rank> ranks = {victim_};
  Kind kind = Kind::missing;
  switch (hang_) {
    case Hang::none:
      return found.kind == Kind::none;
    case Hang::mismatch:
      kind = Kind::mismatch;
      if (ranks_.size() == 2) ranks = {0, 1};
      break;
    case Hang::crossed:
      kind = Kind::deadlock;
      ranks = {std::min(victim_, peer_), std::max(victim_, peer_)};
      break;
    case Hang::unsent:
      kind = Kind::unsent;
      ranks = {peer_};
      break;
    case Hang::queued:
      kind = Kind::queued;
      break;
    case Hang::hung:
      kind = Kind::hung;
      ranks.clear();
      break;
    case Hang::slow:
      kind = Kind::straggler;
      break;
    case Hang::diverged:
      kind = Kind::diverged;
      if (ranks_.size() == 2) ranks = {0, 1};
      break;
    default:
      break;
  }
  return found.kind == kind && found.ranks == ranks;
}

/// Returns whether the diagnosis may say this for a moment, once the victim has done wrong.
bool HangStory::may_say(const Diagnosis& found) const {
  if (found.kind == Kind::none) return true;
  if (hang_ == Hang::none || !done_) return hang_ == Hang::absent && expects(found);
  // A process that is gone may be in the operation: until it is silent, nothing tells it apart.
  const bool gone = hang_ == Hang::lost || hang_ == Hang::vanished || hang_ == Hang::paused;
  if (gone && found.kind == Kind::hung) return found.state == State::waiting;
  // A daemon that was started after the fault may not know who the rank of a group was.
  if (gone && found.kind == Kind::missing && found.ranks.empty()) return true;
  if (hang_ == Hang::threads) {
    const bool right = found.kind == Kind::deadlock || found.kind == Kind::missing;
    return right && found.state == State::waiting;
  }
  if (hang_ == Hang::brief && found.kind == Kind::hung) return found.state == State::waiting;
  // A reset connection is not opened again during the pause.
  const bool closed = found.sentence.find("connection has closed") != std::string::npos;
  if (hang_ == Hang::brief && troubled_ && closed) return expects(found);
  // After a checkpoint, the rank that waited for the victim may be late, too, for a moment.
  const auto late = [this](Rank rank) { return rank == victim_ || rank == peer_; };
  const bool ends = passes() && found.kind == Kind::missing;
  if (ends && std::ranges::all_of(found.ranks, late)) return found.state == State::waiting;
  // Until the sender has told that all its threads wait, another one may still send.
  const bool circle = hang_ == Hang::unsent && found.kind == Kind::deadlock;
  if (circle && std::ranges::all_of(found.ranks, late)) return found.state == State::waiting;
  const bool waits = passes() || hang_ == Hang::queued || hang_ == Hang::slow;
  return expects(found) && !(waits && found.state == State::stuck);
}

void HangStory::watch() {
  world_.after(kHangLook, [this] { watch(); });
  const TimePoint now = world_.now();
  for (; seen_ < records_.diagnoses.size(); ++seen_) {
    const Diagnosis& found = records_.diagnoses[seen_].diagnosis;
    if (!may_say(found)) return wrong("the diagnosis is " + text_of(found));
  }
  if (!all_back()) {
    good_since_ = now;
    named_.reset();
  }
  const auto& loads = records_.loaded_at[kTrainingJob];
  if (!loads.empty() && loaded_since_ != loads.back()) {
    loaded_since_ = loads.back();
    complete_ = false;
  }
  complete_ = complete_ || (!done_ && all_back());
  const bool hangs = done_ && (goes_on() || is_effective());
  if (hang_ == Hang::absent) effective_ = TimePoint(seconds(1));
  if (hangs && !effective_) effective_ = now - (goes_on() ? Duration(0) : 5 * step_);
  if (hang_ == Hang::checkpoint && effective_ && !is_effective()) return;  // it goes on
  if (!effective_ || hang_ == Hang::none || hang_ == Hang::threads || hang_ == Hang::brief) return;
  const core::Job* const served = job();
  if (served != nullptr && expects(served->diagnosis())) named_ = now;
  // A daemon that has loaded the job lets its ranks return first.
  const TimePoint returned =
      loads.size() > 1 ? loaded_since_ + core::Diagnoses::kReturn : TimePoint();
  if (named_ || now - std::max({*effective_, good_since_, returned}) <= limit() + kSlack) return;
  wrong(format("after {} the diagnosis is {}", human(now - *effective_),
               served == nullptr ? "none" : text_of(served->diagnosis())));
}

void HangStory::check_end() {
  const core::Job* const served = job();
  if (served == nullptr) return wrong("no daemon serves the job in the end");
  const bool over = hang_ == Hang::none || passes();
  if (over && served->diagnosis().kind != Kind::none) {
    return wrong("in the end the diagnosis is " + text_of(served->diagnosis()));
  }
  if (over && std::ranges::any_of(ranks_, [](const auto& rank) { return rank->calls() < 20; })) {
    return wrong("the ranks did not go on");
  }
  if (!over && !effective_) return wrong("nobody has waited");
  const bool hopeless = hang_ == Hang::mismatch || hang_ == Hang::crossed;
  for (const auto& rank : ranks_) {
    const bool concerned = hang_ == Hang::mismatch || rank->rank() == victim_ ||
                           rank->rank() == peer_ || hang_ == Hang::crossed;
    const bool told = std::ranges::any_of(records_.diagnoses, [&](const SeenDiagnosis& seen) {
      return expects(seen.diagnosis) && seen.diagnosis.sentence == rank->given_up();
    });
    if (hopeless && concerned && !told) {
      return wrong(format("rank {} has not given its group up with the sentence, but \"{}\"",
                          rank->rank(), rank->given_up()));
    }
    const Duration most = hang_ == Hang::crossed ? kCircleGivenUp : kGivenUp;
    if (hopeless && concerned && !troubled_ && rank->given_up_at() - *effective_ > most) {
      return wrong(format("rank {} has given its group up only after {}", rank->rank(),
                          human(rank->given_up_at() - *effective_)));
    }
    if (!hopeless && !rank->given_up().empty()) {
      return wrong(format("rank {} has given up: {}", rank->rank(), rank->given_up()));
    }
  }
}

std::optional<std::string> HangStory::tell() {
  choose(seed_);
  for (unsigned place = 0; place < swarm_.daemons; ++place) start_daemon(place);
  start_ranks();
  troubled_ = random_.chance(40);
  if (troubled_) trouble_later();
  world_.after(strikes_at_, [this] { strike(); });
  watch();
  const TimePoint end = TimePoint(lasts_);
  while (!world_.violation() && world_.step(end)) {
  }
  if (!world_.violation()) check_end();
  if (!world_.violation()) return std::nullopt;
  std::string text = world_.violation()->oracle + ": " + world_.violation()->text;
  for (const std::string& line : world_.trace.last()) text += "\n    " + line;
  return text;
}

}  // namespace c10dd::sim
