// SPDX-License-Identifier: Apache-2.0
// Reads a job from an engine piece by piece, so that the engine serves others in between.
#pragma once

#include <memory>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// A piece of the rows of a job that is being loaded.
struct JobPiece {
  Result<Claim> claim = Claim{};  ///< a failure: nothing more comes
  std::vector<Row> rows;
  bool last = false;
};

/// The engine's side of one load; belongs to the thread that has the engine.
class JobLoad {
 public:
  explicit JobLoad(JobNumber number) : number_(number) {}

  /// Claims the job first, then reads at most `most` rows a call, and asks at the end whether the
  /// claim still holds: only then are the rows those of one moment.
  JobPiece next(Engine& engine, std::size_t most) {
    JobPiece piece;
    if (!reader_) {
      piece.claim = engine.claim(number_);
      if (!piece.claim) return {piece.claim, {}, true};
      claim_ = *piece.claim;
      reader_ = engine.read(number_);
    }
    piece.claim = claim_;
    const Result<bool> more = reader_->next(piece.rows, most);
    if (more && *more) return piece;
    reader_.reset();
    const Result<void> held = engine.renew({number_, claim_.epoch});
    if (!held) return {held.error(), {}, true};
    if (!more) return {more.error(), {}, true};
    piece.last = true;
    return piece;
  }

 private:
  const JobNumber number_;
  Claim claim_;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace c10dd::store
