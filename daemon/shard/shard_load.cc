// SPDX-License-Identifier: Apache-2.0
// How the shard loads a job: piece by piece, on the commit thread and on its own, so that the
// other jobs go on meanwhile.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "daemon/shard/shard.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

/// Loading takes the engine from the other jobs; who is turned away comes again and again.
constexpr auto kDamagedRest = std::chrono::minutes(1);
/// Rows of a piece: a few milliseconds of each thread.
constexpr std::size_t kPieceRows = 4'096;

/// The commit thread's side of a load.
struct JobLoad {
  std::uint64_t generation = 0;  // of the engine
  std::shared_ptr<std::atomic<bool>> intact;
  JobNumber number = 0;
  Epoch epoch = 0;
  std::unique_ptr<store::RowReader> reader;

  /// The claim first, after the directory's row; then the rows; at the end whether it still holds:
  /// only then are they those of one moment.
  JobPiece next(store::Engine& engine) {
    JobPiece piece;
    if (!reader) {
      if (!*intact) return {unavailable("the job's number is not durable"), {}, true};
      piece.claim = engine.claim(number);
      if (!piece.claim) return {piece.claim, {}, true};
      epoch = piece.claim->epoch;
      reader = engine.read(number);
    }
    const Result<bool> more = reader->next(piece.rows, kPieceRows);
    if (more && *more) return piece;
    reader.reset();
    const Result<void> held = engine.renew({number, epoch});
    if (!held) return {held.error(), {}, true};
    if (!more) return {more.error(), {}, true};
    piece.last = true;
    return piece;
  }
};

}  // namespace

void Shard::load(const JobRef& slot) {
  const auto load = std::make_shared<JobLoad>();
  load->generation = engine_.generation;
  load->intact = engine_.intact;
  load->number = slot->number;
  engine_.commit->post_steps([this, slot, load](store::Engine& engine) {
    JobPiece piece = load->next(engine);
    const bool more = !piece.last;
    asio::post(loop_,
               [this, slot, generation = load->generation, piece = std::move(piece)]() mutable {
                 const bool current = engine_.commit && generation == engine_.generation;
                 if (current && !slot->dropped) take_piece(slot, std::move(piece));
               });
    return more;
  });
}

void Shard::take_piece(const JobRef& slot, JobPiece piece) {
  slot->pieces.push_back(std::move(piece));
  if (slot->pieces.size() == 1) restore_later(slot);
}

/// In the next turn: one piece in each.
void Shard::restore_later(const JobRef& slot) {
  rest([this, slot] { asio::post(loop_, [this, slot] { restore_piece(slot); }); }, true);
}

void Shard::restore_piece(const JobRef& slot) {
  if (slot->dropped) return;
  const JobPiece& piece = slot->pieces.front();
  if (piece.claim && !slot->job) {
    const Stamp start{engine_.incarnation, piece.claim->epoch, piece.claim->revision};
    slot->epoch = piece.claim->epoch;
    slot->handed_over = piece.claim->revision;
    slot->job = std::make_unique<core::Job>(slot->number, start, quotas_);
    slot->gate = std::make_unique<core::CommitGate>(start, engine_.shared);
    slot->restored = {};
  }
  for (const Row& row : piece.rows) {
    if (slot->restored) slot->restored = slot->job->restore(row);
  }
  const bool last = piece.last;
  const Result<void> good = piece.claim ? slot->restored : Result<void>(piece.claim.error());
  slot->pieces.pop_front();
  if (last) return loaded(slot, good ? slot->job->resume(time_.now()) : good);
  if (!slot->pieces.empty()) restore_later(slot);
}

void Shard::loaded(const JobRef& slot, const Result<void>& good) {
  if (good) {
    slot->serving = true;
    touch(slot);
    metrics_.job_loaded(slot->name);
    spdlog::info("event=job_loaded job={} number={} keys={} epoch={}", slot->name, slot->number,
                 slot->job->stats().keys, slot->epoch);
  } else {
    slot->load_failure = good.error().detail;
    spdlog::error("event=job_load_failed job={} reason={}", slot->name, quoted(slot->load_failure));
  }
  const bool damaged = good.has_error() && good.error().code == Code::malformed;
  if (damaged) {
    host_.report_damage(slot->load_failure);
    slot->damaged_until = std::chrono::steady_clock::now() + kDamagedRest;
    slot->job.reset();
    slot->gate.reset();
  }
  for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  if (!good && !damaged) drop(slot, good.error());
  if (good.has_error() && good.error().code == Code::unavailable) {
    host_.report_lost(engine_.generation, good.error().detail);
    engine_lost(good.error().detail);
  }
}

}  // namespace c10dd::daemon
