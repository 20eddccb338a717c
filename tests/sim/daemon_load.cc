// SPDX-License-Identifier: Apache-2.0
// How the daemon loads a job, as daemon/shard/shard_load.cc does: pieces of a few rows, between
// which the engine serves others, and other daemons.
#include "tests/sim/daemon.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {

/// The engine's side: first the directory's row and the claim, then the rows; at the end whether
/// the claim still holds.
struct Daemon::Load {
  SlotRef slot;
  std::vector<Row> directory_rows;
  Revision directory_from = 0;
  Epoch epoch = 0;
  std::unique_ptr<store::RowReader> reader;

  Piece next(store::Engine* engine, std::size_t most) {
    Piece piece;
    if (engine == nullptr) return {unavailable("the engine is lost"), {}, true};
    if (!reader) {
      if (!named(*engine)) return {unavailable("the directory row was not taken"), {}, true};
      piece.claim = *engine->claim(slot->number);
      epoch = piece.claim->epoch;
      reader = engine->read(slot->number);
    }
    if (*reader->next(piece.rows, most)) return piece;
    const Result<void> held = engine->renew({slot->number, epoch});
    if (!held && !planted(Plant::load_unconfirmed)) return {held.error(), {}, true};
    piece.last = true;
    return piece;
  }

  bool named(store::Engine& engine) const {
    if (directory_rows.empty()) return true;
    const Epoch owner = engine.claim(core::Directory::kNumber)->epoch;
    const store::JobBatch batch{core::Directory::kNumber, owner, directory_from, directory_from + 1,
                                directory_rows};
    return engine.commit(std::span(&batch, 1)).front() == store::Outcome::durable;
  }
};

void Daemon::load(const SlotRef& slot, std::vector<Row> directory_rows, Revision directory_from) {
  read_on(std::make_shared<Load>(Load{slot, std::move(directory_rows), directory_from, 0, {}}));
}

void Daemon::read_on(const std::shared_ptr<Load>& load) {
  queue_->post([this, self = shared_from_this(), load, g = generation_](store::Engine* engine) {
    Piece piece = load->next(engine, 1 + world_.random.below(kPieceRows));
    post([this, load, g, piece = std::move(piece)] {
      if (g != generation_) return;
      if (!piece.last) read_on(load);
      restore(load->slot, piece);
    });
  });
}

void Daemon::restore(const SlotRef& slot, const Piece& piece) {
  if (piece.claim && !slot->job) {
    const Stamp start{directory_->incarnation(), piece.claim->epoch, piece.claim->revision};
    slot->epoch = piece.claim->epoch;
    slot->handed_over = piece.claim->revision;
    slot->job = std::make_unique<core::Job>(slot->number, start, quotas());
    const bool confirm = swarm_.shared && !planted(Plant::confirmation_skipped);
    slot->gate = std::make_unique<core::CommitGate>(start, confirm);
  }
  for (const Row& row : piece.rows) {
    if (slot->restored) slot->restored = slot->job->restore(row);
  }
  if (piece.last) loaded(slot, piece.claim ? slot->restored : Result<void>(piece.claim.error()));
}

void Daemon::loaded(const SlotRef& slot, Result<void> good) {
  if (good) {
    slot->served_since = job_now();
    if (!planted(Plant::resume_forgotten)) good = slot->job->resume(job_now());
    if (planted(Plant::clock_jumps_at_restart)) job_time_ += std::chrono::minutes(10);
  }
  if (good) {
    slot->serving = true;
    records_.jobs[slot->name] = slot->number;
    ++records_.loads[slot->name];
    records_.loaded_at[slot->name].push_back(world_.now());
    world_.note("job.loaded", slot->number, slot->handed_over);
  } else if (good.error().code == Code::malformed) {
    world_.violated("restore", slot->name + ": " + good.error().detail);
  }
  for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  if (good) return;
  drop(slot, good.error());
  if (good.error().code == Code::unavailable) lose_engine(good.error().detail);
}

}  // namespace c10dd::sim
