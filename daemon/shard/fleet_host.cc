// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/fleet_host.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <thread>

#include "daemon/config/version.h"
#include "daemon/shard/shards.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;

/// The row of a daemon that has been silent for so long is removed.
constexpr std::chrono::hours kForgetAfter{1};

std::string address_of(const store::DaemonFacts& daemon) {
  return daemon.addresses.empty() ? format("process {:016x}", daemon.process)
                                  : daemon.addresses.front();
}

}  // namespace

FleetHost::FleetHost(Loop& loop, const Options& options, std::vector<std::string> addresses,
                     core::DirectoryHost& directory, Engine engine)
    : loop_(loop),
      url_(options.engine),
      directory_(directory),
      engine_(std::move(engine)),
      self_{store::this_process(), std::move(addresses), kVersion, options.lease, false},
      timer_(loop) {}

FleetHost::~FleetHost() = default;

Result<void> FleetHost::join() {
  Result<std::unique_ptr<store::Fleet>> link = store::open_fleet(url_);
  if (!link) return link.error();
  link_ = std::move(*link);
  core::FleetView view(self_.process, self_.lease);
  bool told = false;
  for (int readings = 0;; ++readings) {
    const Heard reading = link_->read();
    if (!reading) return reading.error();
    view.read(reading->daemons, std::chrono::steady_clock::now());
    const std::optional<core::Conflict> conflict = core::conflict_of(self_, view);
    if (!conflict) break;
    const core::FleetView::Other& other = view.daemons().at(conflict->with);
    if (readings > 1 && other.silent == Duration{0}) {  // it has sent a heartbeat meanwhile
      return failure(Code::invalid_argument, "{}", conflict->reason);
    }
    if (!std::exchange(told, true)) {
      spdlog::info(
          "event=fleet_wait reason={}",
          quoted("waiting until a daemon that may be dead counts as silent: " + conflict->reason));
    }
    std::this_thread::sleep_for(view.interval());
  }
  const core::SteadyTime sent = loop_.boot_now();
  const Heard reading = link_->beat(self_);
  if (!reading) return reading.error();
  view.read(reading->daemons, std::chrono::steady_clock::now());
  news_ = {view.lease_end(sent), view.addresses()};
  spdlog::info("event=fleet_joined process={:016x} address={} lease={} daemons={}", self_.process,
               address_of(self_), human(self_.lease), view.daemons().size());
  directory_.join_fleet(std::move(view));
  return {};
}

void FleetHost::start(Shards& shards) {
  shards_ = &shards;
  tick();
}

void FleetHost::tick() {
  timer_.expires_after(directory_.fleet()->interval());
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) tick();
  });
  if (loop_.boot_now() >= news_.lease_end && std::exchange(held_, false)) {
    spdlog::error("event=lease_over reason={}",
                  quoted(failure_.empty() ? "no heartbeat was sent in time" : failure_));
  }
  if (std::exchange(asking_, true)) return;
  if (!engine_.open() || engine_.commit_age() > self_.lease / 2) return send(false);
  const auto turns = [](Shard&) { return true; };
  shards_->ask<bool>(turns, [this](const std::vector<bool>&) { send(true); });
}

void FleetHost::send(bool beats) {
  const core::SteadyTime sent = loop_.boot_now();
  asio::post(thread_, [this, sent, beats, self = self_, server = engine_.server()] {
    asio::post(loop_, [this, sent, beats, reading = ask(beats, self, server)] {
      heard(sent, beats, reading);
    });
  });
}

/// Sends a heartbeat, or only reads. Called on thread_.
FleetHost::Heard FleetHost::ask(bool beats, const store::DaemonFacts& self,
                                const std::string& server) {
  if (!link_) {
    Result<std::unique_ptr<store::Fleet>> link = store::open_fleet(url_);
    if (!link) return link.error();
    link_ = std::move(*link);
  }
  if (beats && link_->server() != server) {
    link_.reset();
    return failure(Code::unavailable,
                   "the engine and the fleet are on two servers; one was started again");
  }
  Heard reading = beats ? link_->beat(self) : link_->read();
  if (!reading) link_.reset();
  return reading;
}

void FleetHost::heard(core::SteadyTime sent, bool beat, const Heard& heard) {
  asking_ = false;
  if (!heard) {
    if (failure_ != heard.error().detail) {
      spdlog::warn("event=heartbeat_failed reason={}", quoted(heard.error().detail));
    }
    failure_ = heard.error().detail;
    return;
  }
  failure_.clear();
  directory_.heard(*heard);
  note_others();
  forget_the_dead();
  if (!beat) return;
  if (engine_.open() && heard->incarnation != engine_.incarnation()) {
    return engine_.lose(
        "the server has another state than the one that was read: it was erased or "
        "replaced");
  }
  news_ = {directory_.fleet()->lease_end(sent), directory_.fleet()->addresses()};
  if (!std::exchange(held_, true)) spdlog::info("event=lease_renewed");
  shards_->each([news = news_](Shard& shard) { shard.host().heard_from_fleet(news); });
}

/// Logs which daemons have become silent, or are heard again.
void FleetHost::note_others() {
  const core::FleetView& fleet = *directory_.fleet();
  std::map<std::uint64_t, bool> silent;
  for (const auto& [process, other] : fleet.daemons()) {
    if (process == self_.process) continue;
    const bool now = silent[process] = fleet.is_silent(other);
    const auto before = silent_.find(process);
    if (before == silent_.end() ? !now : before->second == now) continue;
    spdlog::warn("event={} address={} process={:016x} lease={}",
                 now ? "daemon_silent" : "daemon_heard", address_of(other.row.facts), process,
                 human(self_.lease));
  }
  silent_ = std::move(silent);
}

void FleetHost::forget_the_dead() {
  for (const auto& [process, other] : directory_.fleet()->daemons()) {
    if (process == self_.process || other.silent < kForgetAfter) continue;
    asio::post(thread_, [this, process = process, beats = other.row.beats] {
      if (link_) static_cast<void>(link_->remove(process, beats));
    });
  }
}

void FleetHost::leave() {
  thread_.join();
  if (!link_ || !directory_.fleet()) return;
  const Heard reading = link_->read();
  if (!reading) return;
  for (const store::DaemonRow& row : reading->daemons) {
    if (row.facts.process == self_.process) {
      static_cast<void>(link_->remove(self_.process, row.beats));
    }
  }
}

std::string FleetHost::not_ready() const {
  if (loop_.boot_now() < news_.lease_end) return {};
  return format("the lease of the shared engine is over: {}; its jobs go to other daemons",
                failure_.empty() ? "no heartbeat was sent in time" : failure_);
}

}  // namespace c10dd::daemon
