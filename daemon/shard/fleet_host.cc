// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/fleet_host.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <random>
#include <thread>

#include "daemon/config/version.h"
#include "daemon/shard/shards.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;

std::string address_of(const store::DaemonFacts& daemon) {
  return daemon.addresses.empty() ? format("process {:016x}", daemon.process)
                                  : daemon.addresses.front();
}

native::DoorKey random_key() {
  std::random_device random;
  const auto number = [&] { return std::uint64_t{random()} << 32 | random(); };
  return {number(), number()};
}

}  // namespace

FleetHost::FleetHost(Loop& loop, const Options& options, std::vector<std::string> addresses,
                     core::DirectoryHost& directory, Engine engine)
    : loop_(loop),
      url_(options.engine),
      directory_(directory),
      engine_(std::move(engine)),
      member_(loop, directory, *this,
              {store::this_process(), std::move(addresses), kVersion, options.lease, false,
               random_key()}),
      timer_(loop) {}

FleetHost::~FleetHost() = default;

/// Reads the fleet until no other daemon is in the way. Returns what was read.
Result<core::FleetView> FleetHost::wait_for_room() {
  const store::DaemonFacts& self = member_.self();
  core::FleetView view(self.process, self.lease);
  for (int readings = 0;; ++readings) {
    const Heard reading = link_->read();
    if (!reading) return reading.error();
    view.read(reading->daemons, std::chrono::steady_clock::now());
    const std::optional<core::Conflict> conflict = core::conflict_of(self, view);
    if (!conflict) return view;
    const bool lives = readings > 1 && view.daemons().at(conflict->with).silent == Duration{0};
    if (lives) return failure(Code::invalid_argument, "{}", conflict->reason);
    if (readings == 0) {
      spdlog::info(
          "event=fleet_wait reason={}",
          quoted("a daemon that may be dead must be silent for its lease: " + conflict->reason));
    }
    std::this_thread::sleep_for(view.interval());
  }
}

Result<void> FleetHost::join() {
  Result<std::unique_ptr<store::Fleet>> link = store::open_fleet(url_);
  if (!link) return link.error();
  link_ = std::move(*link);
  Result<core::FleetView> view = wait_for_room();
  if (!view) return view.error();
  const core::SteadyTime sent = loop_.boot_now();
  const Heard reading = link_->beat(member_.self());
  if (!reading) return reading.error();
  view->read(reading->daemons, std::chrono::steady_clock::now());
  const store::DaemonFacts& self = member_.self();
  spdlog::info("event=fleet_joined process={:016x} address={} lease={} daemons={}", self.process,
               address_of(self), human(self.lease), view->daemons().size());
  directory_.join_fleet(std::move(*view));
  member_.joined(sent);
  return {};
}

void FleetHost::start(Shards& shards) {
  shards_ = &shards;
  arm_timer();
}

void FleetHost::arm_timer() {
  timer_.expires_after(directory_.fleet()->interval());
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    member_.tick();
    arm_timer();
  });
}

void FleetHost::turn_all(std::function<void()> then) {
  shards_->ask<bool>([](Shard&) { return true; },
                     [then = std::move(then)](const std::vector<bool>&) { then(); });
}

void FleetHost::ask(bool beats, const store::DaemonFacts& self, std::function<void(Heard)> then) {
  asio::post(thread_,
             [this, beats, self, server = engine_.server(), then = std::move(then)]() mutable {
               asio::post(loop_, [then = std::move(then), reading = ask_link(beats, self, server)] {
                 then(reading);
               });
             });
}

/// Sends a heartbeat, or only reads. Called on thread_.
FleetHost::Heard FleetHost::ask_link(bool beats, const store::DaemonFacts& self,
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

void FleetHost::remove(std::uint64_t process, std::uint64_t beats) {
  asio::post(thread_, [this, process, beats] {
    if (link_) static_cast<void>(link_->remove(process, beats));
  });
}

void FleetHost::tell(const core::FleetNews& news) {
  shards_->each([news](Shard& shard) { shard.host().heard_from_fleet(news); });
}

void FleetHost::report(const core::FleetEvent& event) {
  using Kind = core::FleetEvent::Kind;
  switch (event.kind) {
    case Kind::lease_over:
      return spdlog::error("event=lease_over reason={}", quoted(event.detail));
    case Kind::lease_renewed:
      return spdlog::info("event=lease_renewed");
    case Kind::heartbeat_failed:
      return spdlog::warn("event=heartbeat_failed reason={}", quoted(event.detail));
    case Kind::daemon_silent:
    case Kind::daemon_heard:
      return spdlog::warn("event={} address={} process={:016x}",
                          event.kind == Kind::daemon_silent ? "daemon_silent" : "daemon_heard",
                          address_of(event.daemon), event.daemon.process);
  }
}

void FleetHost::leave() {
  thread_.join();
  if (!link_ || !directory_.fleet()) return;
  const Heard reading = link_->read();
  if (!reading) return;
  for (const store::DaemonRow& row : reading->daemons) {
    if (row.facts.process != member_.self().process) continue;
    static_cast<void>(link_->remove(row.facts.process, row.beats));
  }
}

}  // namespace c10dd::daemon
