// SPDX-License-Identifier: Apache-2.0
// A daemon's side of the fleet: the product's FleetMember over a link that is slow, hangs, and
// loses commands and replies.
#include "tests/sim/daemon.h"

namespace c10dd::sim {
namespace {

constexpr Duration kLinkPatience = std::chrono::seconds(2);

}  // namespace

void Daemon::join_fleet(bool accepts) {
  static_cast<void>(link_.open());
  const store::DaemonFacts self{number_, {address_of(place_)}, "sim", swarm_.lease, false};
  core::FleetView view(number_, swarm_.lease);
  const store::FleetReading before = *link_.fleet()->read();
  const core::SteadyTime sent = first().boot_now();
  view.read(link_.fleet()->beat(self)->daemons, first().now());
  directory_->join_fleet(std::move(view));
  core::FleetMember::Shell& shell = *this;
  member_ = std::make_unique<core::FleetMember>(first(), *directory_, shell, self);
  const bool lost = member_->watch().read(before) == core::StateWatch::Verdict::rolled_back;
  if (lost && !accepts) world_.violated("loss", "a daemon starts on a state that is rolled back");
  if (lost) accepted_.why = member_->rolled_back();
  member_->joined(sent);
  for (const auto& shard : shards_) {
    shard->dispatch([shard, news = member_->news()] { shard->host().heard_from_fleet(news); });
  }
}

void Daemon::beat_later() {
  world_.after(directory_->fleet()->interval(), [this, self = shared_from_this()] {
    if (dead_) return;
    first().post([this] { member_->tick(); });
    beat_later();
  });
}

void Daemon::turn_all(std::function<void()> then) {
  const auto left = std::make_shared<std::size_t>(shards_.size());
  for (const auto& shard : shards_) {
    shard->post([this, left, then] {
      first().post([left, then] {
        if (--*left == 0) then();
      });
    });
  }
}

/// Runs the command somewhere between two delays. A command may be lost, and so may its reply.
void Daemon::ask(bool beats, const store::DaemonFacts& facts,
                 std::function<void(core::FleetMember::Heard)> then) {
  const bool lost = disk_.loses();
  const bool reply_lost = disk_.loses();
  const bool late = disk_.loses();
  if (lost || reply_lost || late || !beats) note_trouble(kLinkPatience);
  const TimePoint patience = world_.now() + kLinkPatience;
  const Duration there = world_.random.skewed(std::chrono::microseconds(50), swarm_.net_most);
  world_.after(there + disk_.hangs_for(), [=, this, self = shared_from_this()] {
    core::FleetLink::Heard heard{core::unavailable("the server does not reply; check its address")};
    if (!lost && !dead_) heard = link_.ask(beats, facts, engine_->server());
    Duration back = world_.random.skewed(std::chrono::microseconds(50), swarm_.net_most);
    if (late) back = world_.random.between(Duration(0), patience - world_.now());
    if (lost || reply_lost || world_.now() + back > patience) {
      heard = {core::unavailable("no reply within 2 s; check the server")};
      back = std::max(patience - world_.now(), Duration(0));
    }
    world_.after(back, [this, self, then, heard] { first().post([then, heard] { then(heard); }); });
  });
}

void Daemon::reach_promoted() {
  const Duration most = std::chrono::seconds(4);
  world_.after(world_.random.between(Duration(0), most), [this, self = shared_from_this()] {
    if (!dead_) link_.close();
  });
  world_.after(world_.random.between(Duration(0), most), [this, self = shared_from_this()] {
    if (!dead_) report_lost(generation_, "the master has changed");
  });
}

void Daemon::remove(std::uint64_t process, std::uint64_t beats) {
  if (link_.fleet()) static_cast<void>(link_.fleet()->remove(process, beats));
}

void Daemon::report_rollback(const std::string& what) {
  if (link_.fleet()) static_cast<void>(link_.fleet()->report_rollback(what));
}

Duration Daemon::commit_age() const { return queue_ ? queue_->age() : Duration(0); }

void Daemon::tell(const core::FleetNews& news) {
  for (const auto& shard : shards_) {
    shard->post([shard, news] { shard->host().heard_from_fleet(news); });
  }
}

void Daemon::report(const core::FleetEvent& event) {
  if (event.kind == core::FleetEvent::Kind::rolled_back && !records_.state_lost) {
    world_.violated("loss", "a daemon takes a whole state for rolled back: " + event.detail);
  }
  if (event.kind == core::FleetEvent::Kind::lease_over && swarm_.untroubled) {
    world_.violated("strangers", "a lease has ended: " + event.detail);
  }
  world_.note("fleet", number_, static_cast<std::uint64_t>(event.kind), event.detail);
}

std::optional<JobNumber> Daemon::number_of(const std::string& job) const {
  const Result<JobNumber> number = directory_->expect(job, "", {});
  return number ? std::optional(*number) : std::nullopt;
}

void Daemon::leave_fleet() {
  if (!link_.open()) return;
  const Result<store::FleetReading> reading = link_.fleet()->read();
  for (const store::DaemonRow& row : reading->daemons) {
    if (row.facts.process == number_) static_cast<void>(link_.fleet()->remove(number_, row.beats));
  }
}

}  // namespace c10dd::sim
