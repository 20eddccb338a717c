// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/fleet_host.h"

#include <boost/asio/post.hpp>
#include <thread>

#include "daemon/config/version.h"
#include "daemon/shard/log_line.h"
#include "daemon/shard/shards.h"
#include "protocol/format.h"
#include "protocol/random.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;

std::string address_of(const store::DaemonFacts& daemon) {
  return daemon.addresses.empty() ? format("process {:016x}", daemon.process)
                                  : daemon.addresses.front();
}

native::RelayKey random_key() { return {random_number(), random_number()}; }

}  // namespace

FleetHost::FleetHost(Loop& loop, const Options& options, std::vector<std::string> addresses,
                     core::DirectoryHost& directory, Engine engine, Duration look_interval)
    : loop_(loop),
      options_(options),
      directory_(directory),
      engine_(std::move(engine)),
      look_interval_(look_interval),
      member_(loop, directory, *this,
              {store::this_process(), std::move(addresses), kVersion, options.lease, false,
               random_key(), !options.tls.empty()}),
      mark_(options.mark),
      timer_(loop),
      look_timer_(loop),
      watch_(store::watch_server(options.engine, options.redis_ca)),
      link_([this] { return store::open_fleet(options_.engine, patience_, options_.redis_ca); }) {}

FleetHost::~FleetHost() = default;

/// Checks that the server keeps what it acknowledges.
Result<void> FleetHost::check_server() {
  if (!watch_) return {};
  Result<store::ServerState> state = watch_->look();
  if (!state) return state.error();
  server_ = std::move(*state);
  if (server_.weakness.empty() || options_.redis_accept_weak_durability) return {};
  return failure(Code::invalid_argument,
                 "{}: acknowledged changes may be lost; correct this, or accept it with "
                 "--redis-accept-weak-durability",
                 server_.weakness);
}

/// Checks that the state has lost nothing since the mark was written, or that this is accepted.
Result<void> FleetHost::check_state() {
  Result<core::StateMark> mark = mark_.read();
  if (!mark) {
    if (mark.error().code != Code::malformed) return MarkFile::unusable(mark.error());
    if (!options_.accept_rollback) return mark.error();
    log_warn("event=mark_given_up reason={}", Sentence{mark.error().detail});
    mark = core::StateMark{};
  }
  core::StateWatch& watch = member_.watch();
  watch = core::StateWatch(*mark);
  const Result<store::FleetReading> reading = link_.fleet()->read();
  if (!reading) return reading.error();
  if (watch.read(*reading) != core::StateWatch::Verdict::rolled_back) {
    return mark_.write_first(watch.mark());
  }
  if (!options_.accept_rollback) {
    return failure(Code::state_rolled_back, "{}: {}; {}", store::without_password(options_.engine),
                   watch.rolled_back(), core::rollback_remedy());
  }
  accepted_loss_ = watch.rolled_back();
  return {};
}

Result<void> FleetHost::accept_loss(const Bytes& incarnation) {
  if (Result<void> accepted = link_.fleet()->accept_rollback(incarnation); !accepted)
    return accepted;
  member_.watch().accept(incarnation);
  return {};
}

/// Reads the fleet until no other daemon is in the way. Returns what was read.
Result<core::FleetView> FleetHost::wait_for_room() {
  const store::DaemonFacts& self = member_.self();
  core::FleetView view(self.process, self.lease);
  for (int readings = 0;; ++readings) {
    const Result<store::FleetReading> reading = link_.fleet()->read();
    if (!reading) return reading.error();
    view.read(reading->daemons, std::chrono::steady_clock::now());
    const std::optional<core::Conflict> conflict = core::conflict_of(self, view);
    if (!conflict) return view;
    const bool lives = readings > 1 && view.daemons().at(conflict->with).silent == Duration{0};
    if (lives) return failure(Code::invalid_argument, "{}", conflict->reason);
    if (readings == 0) {
      log_info("event=fleet_wait reason={}",
               Sentence{"this daemon starts only if the lease of the conflicting daemon expires: " +
                        conflict->reason});
    }
    std::this_thread::sleep_for(view.interval());
  }
}

Result<void> FleetHost::join() {
  if (Result<void> checked = check_server(); !checked) return checked;
  if (Result<void> opened = link_.open(); !opened) return opened;
  if (Result<void> checked = check_state(); !checked) return checked;
  Result<core::FleetView> view = wait_for_room();
  if (!view) return view.error();
  for (const auto& [process, other] : view->daemons()) {
    if (!view->is_over(other, member_.self())) continue;
    Result<void> removed = link_.fleet()->remove(process, other.row.beats);
    if (!removed) return removed;
  }
  const core::SteadyTime sent = loop_.boot_now();
  const Result<store::FleetReading> reading = link_.fleet()->beat(member_.self());
  if (!reading) return reading.error();
  view->read(reading->daemons, std::chrono::steady_clock::now());
  const store::DaemonFacts& self = member_.self();
  log_info("event=fleet_joined process={:016x} address={} lease={} daemons={}", self.process,
           address_of(self), human(self.lease), view->daemons().size());
  directory_.join_fleet(std::move(*view));
  member_.joined(sent);
  return {};
}

void FleetHost::start(Shards& shards) {
  shards_ = &shards;
  patience_ = options_.lease / 3;
  link_.close();
  // To open the engine may have taken longer than the lease that join() has got.
  const core::SteadyTime sent = loop_.boot_now();
  const Heard heard = link_.ask(true, member_.self(), engine_.server());
  if (heard.reading) {
    member_.joined(sent);
    tell(member_.news());
  }
  arm_timer();
  look_later();
}

void FleetHost::look_later() {
  if (!watch_) return;
  look_timer_.expires_after(look_interval_);
  look_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    asio::post(look_thread_, [this] {
      asio::post(loop_, [this, state = watch_->look()] {
        looked(state);
        look_later();
      });
    });
  });
}

/// Follows the server: its settings may have changed, and Sentinels may name another master. While
/// the server cannot be asked, commits and heartbeats fail, too.
void FleetHost::looked(const Result<store::ServerState>& state) {
  if (!state) return;
  if (state->durability != server_.durability) engine_.durability(state->durability);
  if (state->weakness != server_.weakness) {
    if (state->weakness.empty()) {
      log_info("event=durability_strong durability={}", state->durability);
    } else {
      log_error("event=durability_weak durability={} reason={}", state->durability,
                Sentence{state->weakness});
    }
  }
  server_ = *state;
  const std::string server = engine_.server();
  if (server.empty() || server == server_.server) return;
  engine_.lose("the master has changed: the engine was opened on another server");
}

std::string FleetHost::not_ready() const {
  std::string why = member_.not_ready();
  if (!why.empty() || server_.weakness.empty() || options_.redis_accept_weak_durability) return why;
  return format(
      "{}: jobs are served, but acknowledged changes may be lost; correct this, or start the "
      "daemon with --redis-accept-weak-durability",
      server_.weakness);
}

/// Reads over a new link from now on: the old one may be to a server that is not in charge any
/// more, and the engine is opened on what the link says.
void FleetHost::engine_lost(const std::string& suspicion) {
  asio::post(thread_, [this] { link_.close(); });
  member_.engine_lost(suspicion);
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
               asio::post(loop_, [then = std::move(then), heard = link_.ask(beats, self, server)] {
                 then(heard);
               });
             });
}

void FleetHost::remove(std::uint64_t process, std::uint64_t beats) {
  asio::post(thread_, [this, process, beats] {
    if (link_.fleet()) static_cast<void>(link_.fleet()->remove(process, beats));
  });
}

void FleetHost::report_rollback(const std::string& what) {
  asio::post(thread_, [this, what] {
    if (link_.fleet()) static_cast<void>(link_.fleet()->report_rollback(what));
  });
}

void FleetHost::tell(const core::FleetNews& news) {
  mark_.write(member_.watch().mark());
  shards_->each([news](Shard& shard) { shard.host().heard_from_fleet(news); });
}

void FleetHost::report(const core::FleetEvent& event) {
  using Kind = core::FleetEvent::Kind;
  switch (event.kind) {
    case Kind::lease_over:
      return log_error("event=lease_over reason={}", Sentence{event.detail});
    case Kind::lease_renewed:
      return log_info("event=lease_renewed");
    case Kind::heartbeat_failed:
      return log_warn("event=heartbeat_failed reason={}", Sentence{event.detail});
    case Kind::rolled_back:
      return log_error("event=rolled_back reason={}", Sentence{event.detail});
    case Kind::renewed:
      return log_warn("event=rollback_accepted");
    case Kind::daemon_silent:
      return log_warn("event=daemon_silent address={} process={:016x}", address_of(event.daemon),
                      event.daemon.process);
    case Kind::daemon_heard:
      return log_warn("event=daemon_heard address={} process={:016x}", address_of(event.daemon),
                      event.daemon.process);
  }
}

void FleetHost::leave() {
  thread_.join();
  if (!link_.fleet() || !directory_.fleet()) return;
  const Result<store::FleetReading> reading = link_.fleet()->read();
  if (!reading) return;
  for (const store::DaemonRow& row : reading->daemons) {
    if (row.facts.process != member_.self().process) continue;
    static_cast<void>(link_.fleet()->remove(row.facts.process, row.beats));
  }
}

}  // namespace c10dd::daemon
