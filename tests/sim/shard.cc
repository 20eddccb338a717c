// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/shard.h"

#include <algorithm>

#include "daemon/core/host/commit_gate.h"
#include "protocol/fields.h"
#include "tests/sim/daemon.h"
#include "tests/sim/group_log.h"
#include "tests/sim/plants.h"
#include "tests/sim/relays.h"
#include "tests/sim/unconfirmed_engine.h"
#include "tests/sim/visits.h"

namespace c10dd::sim {
namespace {

constexpr std::size_t kPieceRows = 60;  // at most

/// Changes a batch before it goes to the engine, if that fault is planted.
void spoil(Rows& batch) {
  std::vector<Row> rows(batch.begin(), batch.end());
  const auto lose = [&](auto which) { std::erase_if(rows, which); };
  if (planted(Plant::reply_row_lost)) {
    lose([](const Row& row) { return row.kind == Row::Kind::put && row.key[0] == 'r'; });
  } else if (planted(Plant::effect_row_lost)) {
    const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const Row& row) {
      return row.kind == Row::Kind::put && row.key[0] == 'k';
    });
    if (rows.size() > 4 && last != rows.rend()) rows.erase(std::next(last).base());
  } else if (planted(Plant::erase_rows_lost)) {
    lose([](const Row& row) { return row.kind == Row::Kind::erase && row.key[0] == 'k'; });
  } else if (planted(Plant::delivery_rows_lost)) {
    lose([](const Row& row) { return row.kind == Row::Kind::put && row.key[0] == 'c'; });
  } else if (planted(Plant::list_row_lost)) {
    lose([](const Row& row) { return row.key[0] == 'l'; });
  } else if (planted(Plant::batch_reversed)) {
    std::reverse(rows.begin(), rows.end());
  }
  batch = Rows(rows);
}

/// Returns false for guests (visits.h), trainers (trainers.h) and the connections of relays.h,
/// which have oracles of their own.
bool is_recorded(const core::JobSlot& slot) {
  return slot.name != Visits::kJob && slot.name != Relays::kJob && !slot.is_volatile;
}

}  // namespace

Shard::Shard(Daemon& daemon, DriftingClock clock, bool first)
    : Process(daemon.world(), clock), daemon_(daemon), first_(first) {}

void Shard::start(core::JobDirectory& directory) {
  core::JobHost::Shell& shell = *this;
  host_ = std::make_unique<core::JobHost>(*this, shell, directory, daemon_.growth(),
                                          core::JobHost::Settings{daemon_.quotas(), "sim"});
}

// ---- the loop ----------------------------------------------------------------------------------

core::SteadyTime Shard::now() const { return core::SteadyTime(local_now().time_since_epoch()); }

void Shard::post(std::function<void()> f) {
  if (dead()) return;
  const bool late = !late_.empty() || (!in_turn() && world_.random.chance(daemon_.swarm().late));
  if (!late) return Process::post(std::move(f));
  late_.push_back(std::move(f));
  if (late_.size() > 1) return;
  world_.after(world_.random.skewed(std::chrono::microseconds(10), std::chrono::milliseconds(20)),
               [this, self = shared_from_this()] { hurry(); });
}

/// Runs the late calls, in order.
void Shard::hurry() {
  for (auto& f : std::exchange(late_, {})) Process::post(std::move(f));
}

void Shard::dispatch(std::function<void()> f) {
  if (in_turn()) return f();
  post(std::move(f));
}

void Shard::end_turn() {
  host_->end_turn();
  if (first_) daemon_.directory().end_turn();
  std::optional<core::SteadyTime> next = host_->next_wake();
  if (first_) {
    const auto directory = daemon_.directory().next_wake();
    if (directory) next = next ? std::min(*next, *directory) : *directory;
  }
  if (next) wake_at_local(TimePoint(next->time_since_epoch()));
}

// ---- the network -------------------------------------------------------------------------------

void Shard::accept(const LinkRef& link) {
  if (dead()) return link->reset();
  link->attach(Link::daemon, std::static_pointer_cast<Shard>(shared_from_this()));
  connections_[link->number] = std::make_shared<Connection>(*this, world_, daemon_.records(), link);
}

void Shard::on_bytes(const LinkRef& link, std::string bytes) {
  Process::post([this, number = link->number, bytes = std::move(bytes)] {
    const auto it = connections_.find(number);
    if (it == connections_.end()) return;
    const std::shared_ptr<Connection> connection = it->second;
    connection->read(bytes);
  });
}

void Shard::on_closed(const LinkRef& link) {
  Process::post([this, number = link->number] {
    const auto it = connections_.find(number);
    if (it == connections_.end()) return;
    const std::shared_ptr<Connection> connection = it->second;
    connection->close();
  });
}

void Shard::die(bool power_lost) {
  Process::kill();
  late_.clear();
  for (const auto& [number, connection] : std::exchange(connections_, {})) {
    if (power_lost) {
      connection->link()->vanish(Link::daemon);
    } else {
      connection->link()->reset();
    }
  }
  for (auto& [job, watched] : watched_) all_gone(job);
}

// ---- the engine --------------------------------------------------------------------------------

void Shard::engine_opened(const core::EngineState& engine, std::shared_ptr<DiskQueue> queue,
                          std::shared_ptr<bool> intact) {
  queue_ = std::move(queue);
  intact_ = std::move(intact);
  generation_ = engine.generation;
  batch_in_flight_ = false;
  host_->engine_opened(engine);
}

void Shard::engine_lost(const std::string& why) {
  host_->engine_lost(why);
  queue_.reset();
}

void Shard::commit(store::CommitBatch batch) {
  for (store::JobBatch& made : batch.jobs) {
    if (core::is_volatile_number(made.job)) world_.violated("trainers", "a row is stored");
    if (!is_recorded(*host_->jobs().find(made.job))) continue;
    const std::size_t known = std::exchange(watched_[made.job].rows, 0);
    const std::vector<Row> rows(made.rows.begin(), made.rows.end());
    daemon_.records().reply_rows_appended(made.job, made.epoch, std::span(rows).subspan(known));
    spoil(made.rows);
  }
  batch_in_flight_ = true;
  queue_->submit(std::move(batch), [this, self = shared_from_this(),
                                    g = generation_](store::CommitResult result) {
    if (planted(Plant::error_is_success)) {
      std::ranges::replace(result.jobs, store::Outcome::unknown, store::Outcome::durable);
      std::ranges::replace(result.confirms, store::Outcome::unknown, store::Outcome::durable);
    }
    post([this, g, result = std::move(result)]() mutable {
      if (g == generation_) batch_in_flight_ = false;
      host_->committed(g, std::move(result));
    });
  });
}

void Shard::load(const core::JobRef& slot, std::shared_ptr<store::JobLoad> load) {
  read_on(slot, load);
}

/// Reads the next piece, in some seeds much later; see Swarm::slow_load.
void Shard::read_on(const core::JobRef& slot, const std::shared_ptr<store::JobLoad>& load) {
  const Duration most = daemon_.swarm().slow_load;
  if (most == Duration(0)) return read_piece(slot, load);
  world_.after(world_.random.between(Duration(0), most),
               [this, self = shared_from_this(), slot, load, queue = queue_] {
                 if (queue == queue_ && !dead()) read_piece(slot, load);
               });
}

void Shard::read_piece(const core::JobRef& slot, const std::shared_ptr<store::JobLoad>& load) {
  queue_->post([this, self = shared_from_this(), slot, load, queue = queue_, intact = intact_,
                g = generation_](store::Engine* engine) {
    store::JobPiece piece{core::unavailable("the engine is lost"), {}, true};
    if (engine != nullptr && *intact) {
      UnconfirmedEngine unconfirmed(*engine);
      store::Engine& used = planted(Plant::load_unconfirmed) ? unconfirmed : *engine;
      piece = load->next(used, 1 + world_.random.below(kPieceRows));
    }
    const bool last = piece.last;
    post([this, slot, g, piece = std::move(piece)] {
      note_loaded_rows(loading_[slot->number], piece.rows);
      host_->loaded(g, slot, piece);
    });
    if (!last && queue == queue_) read_on(slot, load);
  });
}

void Shard::hand_over(const core::JobRef& slot, std::uint64_t process) {
  queue_->post(
      [this, self = shared_from_this(), slot, process, g = generation_](store::Engine* engine) {
        const Result<void> done = engine == nullptr
                                      ? Result<void>(core::unavailable("the engine is lost"))
                                      : engine->hand_over({slot->number, slot->epoch}, process);
        post([this, slot, g, done] { host_->handed_over(g, slot, done); });
      });
}

void Shard::lose_engine(std::uint64_t generation, const std::string& why, bool rolled_back) {
  queue_.reset();
  daemon_.report_lost(generation, why, rolled_back);
}

void Shard::report_damage(const std::string& what) { world_.violated("restore", what); }

std::string Shard::unsettled() const {
  std::string text;
  if (!queue_) text += "engine not open; ";
  if (batch_in_flight_) text += "batch in flight; ";
  for (const auto& [number, slot] : host_->jobs()) {
    if (!slot->serving) text += slot->name + " is loading; ";
    if (!slot->serving) continue;
    if (!slot->rows.empty()) text += slot->name + " has rows; ";
    if (slot->gate->held() > 0) text += slot->name + " holds answers; ";
  }
  return text;
}

// ---- the records -------------------------------------------------------------------------------

void Shard::performed(const core::JobSlot& slot, const core::Effects& effects,
                      const core::Origin* from, std::uint64_t sequence) {
  if (!is_recorded(slot)) return;
  const bool hello =
      from != nullptr && !effects.replies.empty() && effects.replies.front().op == Hello::op.code;
  const bool thief = hello && !effects.replies.front().result &&
                     effects.replies.front().result.error().code == Code::permission_denied;
  if (thief) from = nullptr;  // it is no sign of life of the session's client
  if (hello && !thief) note_refusal(effects, from->session);
  if (from != nullptr) {
    Signs& signs = watched_[slot.number].signs[from->session];
    signs.frame = host_->job_time();
    // The connection of a hello may have closed before its job was loaded.
    if (hello && !slot.attached.contains(from->session)) signs.closed = signs.frame;
  }
  if (!effects.rows.empty()) note_step(slot, effects, hello ? nullptr : from, sequence);
  note_presence(slot);
  note_diagnoses(slot, effects);
}

void Shard::note_step(const core::JobSlot& slot, const core::Effects& effects,
                      const core::Origin* from, std::uint64_t sequence) {
  Records& records = daemon_.records();
  Step step;
  step.revision = effects.revision;
  if (from != nullptr) {
    step.client = records.sessions[from->session].client;
    step.session = from->session;
    step.sequence = sequence;
  }
  step.rows.assign(effects.rows.begin(), effects.rows.end());
  step.keeps_answer = std::ranges::any_of(effects.replies, [&](const core::OutgoingReply& reply) {
    return reply.evidence == core::Evidence::own_commit && reply.to == step.session &&
           reply.sequence == sequence && find_op(reply.op)->dedup == Dedup::reply;
  });
  step.at = world_.now();
  step.applied = world_.next_order();
  note_losses(slot, step);
  judge_time_left(slot, step);
  watched_[slot.number].rows += step.rows.size();
  records.did(slot.number, slot.epoch, std::move(step));
  world_.note("step", slot.number, effects.revision);
}

/// Records the members that the job has declared lost in this step, with their signs of life.
void Shard::note_losses(const core::JobSlot& slot, const Step& step) {
  const TimePoint now = host_->job_time();
  const Watched& watched = watched_[slot.number];
  for (const Row& row : step.rows) {
    if (row.kind != Row::Kind::put || row.key[0] != 'm') continue;
    const auto member = wire::decode<core::GroupMember>(row.value);
    if (!member || member->state != core::GroupMember::State::lost) continue;
    Loss loss;
    loss.job = slot.name;
    loss.session = member_of(row);
    loss.at = step.at;
    loss.served = now - watched.served_since;
    if (const auto left = watched.time_left.find(loss.session); left != watched.time_left.end()) {
      loss.time_left = left->second;
    }
    loss.ending = member->ending;
    const SessionFacts& facts = daemon_.records().sessions[loss.session];
    if (!daemon_.records().dead_clients.contains(facts.client)) {
      loss.unconfirmed = world_.now() - facts.confirmed;
    }
    if (const auto it = watched.signs.find(loss.session); it != watched.signs.end()) {
      if (it->second.frame) loss.silent = now - *it->second.frame;
      if (it->second.closed) loss.away = now - *it->second.closed;
    }
    daemon_.records().losses.push_back(std::move(loss));
  }
}

/// Records which sessions are connected, if that has changed.
void Shard::note_presence(const core::JobSlot& slot) {
  Records& records = daemon_.records();
  Watched& watched = watched_[slot.number];
  std::set<SessionId> attached;
  for (const auto& [session, attachment] : slot.attached) attached.insert(session);
  for (const SessionId& session : attached) {
    if (watched.attached.contains(session)) continue;
    watched.signs[session] = {host_->job_time(), {}};
    records.sessions[session].is_here(world_.now(), true);
  }
  for (const SessionId& session : watched.attached) {
    if (attached.contains(session)) continue;
    watched.signs[session].closed = host_->job_time();
    if (!host_->draining()) records.sessions[session].is_here(world_.now(), false);
  }
  watched.attached = std::move(attached);
}

void Shard::note_refusal(const core::Effects& effects, const SessionId& session) {
  if (effects.replies.front().result) return;
  Records& records = daemon_.records();
  SessionFacts& facts = records.sessions[session];
  const Code code = effects.replies.front().result.error().code;
  facts.replaced = facts.replaced || code == Code::session_replaced;
  facts.ended = facts.ended || facts.replaced || code == Code::session_expired;
  if (code == Code::session_expired && records.takeovers == 0 &&
      facts.longest_away(world_.now()) < daemon_.swarm().session_expiry * 94 / 100) {
    world_.violated("lives", "a session has expired that was not away long enough");
  }
}

void Shard::all_gone(JobNumber job) {
  for (const SessionId& session : std::exchange(watched_[job].attached, {})) {
    daemon_.records().sessions[session].is_here(world_.now(), false);
  }
}

void Shard::released(const core::OutgoingReply& reply) {
  if (daemon_.records().all_stopped) {
    world_.violated("loss", "a daemon answers though the state was rolled back");
  }
  if (reply.op == Ping::op.code && daemon_.records().fleet) note_ping(reply);
  if (reply.op != Goodbye::op.code) return;
  for (auto& [job, watched] : watched_) {
    if (watched.attached.erase(reply.to) == 0) continue;
    daemon_.records().sessions[reply.to].is_here(world_.now(), false);
  }
}

void Shard::heard_of(const SessionId& session) { daemon_.heard_of(session); }

void Shard::note_sign(const SessionId& session) {
  for (auto& [job, watched] : watched_) {
    const auto it = watched.signs.find(session);
    if (it != watched.signs.end()) it->second.frame = host_->job_time();
  }
}

/// Checks that a claim has one owner, and that names and numbers belong to each other (O15).
void Shard::note_owner(const core::JobSlot& slot) {
  Records& records = daemon_.records();
  if (!records.fleet || records.state_lost) return;  // after a loss, epochs come again
  const auto [at, added] = records.owners.try_emplace({slot.number, slot.epoch}, daemon_.number());
  if (!added && at->second != daemon_.number()) {
    world_.violated("owners", slot.name + ": two daemons serve it with one claim");
  }
  for (const auto& [name, number] : records.jobs) {
    const bool same = name == slot.name;
    if (same ? number == slot.number : number != slot.number) continue;
    world_.violated("owners", slot.name + " has number " + std::to_string(slot.number) + ", but " +
                                  name + " has number " + std::to_string(number));
  }
}

/// Checks that a daemon is deposed only if something has kept it from sending heartbeats. A server
/// that hangs does that to all daemons, and deposes none.
void Shard::note_takeover(const core::JobSlot& slot, std::uint64_t from) {
  const Records& records = daemon_.records();
  const auto trouble = records.trouble.find(from);
  const bool had_some =
      trouble != records.trouble.end() && world_.now() - trouble->second < std::chrono::seconds(20);
  if (!had_some) world_.violated("owners", slot.name + ": a daemon was deposed that was well");
}

/// Checks that a heartbeat is answered by the owner: members take the reply for a sign of life.
void Shard::note_ping(const core::OutgoingReply& reply) {
  for (const auto& [number, slot] : host_->jobs()) {
    if (!slot->attached.contains(reply.to)) continue;
    const auto newer = daemon_.records().owners.upper_bound({number, slot->epoch});
    if (newer == daemon_.records().owners.end() || newer->first.first != number) continue;
    world_.violated("owners",
                    slot->name + ": a daemon answers a heartbeat, but another one serves");
  }
}

void Shard::report(const core::JobSlot* slot, const core::HostEvent& event) {
  const auto* taken = std::get_if<core::JobTakenOver>(&event);
  if (taken != nullptr) return note_takeover(*slot, taken->process);
  if (slot == nullptr || !is_recorded(*slot)) return;
  Records& records = daemon_.records();
  if (std::holds_alternative<core::JobServed>(event)) {
    watched_[slot->number] = std::exchange(loading_[slot->number], {});
    watched_[slot->number].served_since = host_->job_time();
    note_owner(*slot);
    records.jobs[slot->name] = slot->number;
    ++records.loads[slot->name];
    records.loaded_at[slot->name].push_back(world_.now());
    world_.note("job.loaded", slot->number, slot->handed_over);
  } else if (const auto* counted = std::get_if<core::JobCounted>(&event)) {
    if (counted->counted) return;
    world_.note("job.drop", slot->number);
    all_gone(slot->number);
  }
}

}  // namespace c10dd::sim
