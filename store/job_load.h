// SPDX-License-Identifier: Apache-2.0
// Reads a job from an engine in pieces, so that the engine serves other jobs in between.
#pragma once

#include <memory>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// A piece of the rows of a job that is being loaded.
struct JobPiece {
  Result<Claim> claim = Claim{};  ///< a failure ends the load
  std::vector<Row> rows;
  bool last = false;  ///< no further piece, since the load is complete or has failed
};

/// One load of a job. Used on the thread that has the engine.
class JobLoad {
 public:
  explicit JobLoad(JobNumber number) : number_(number) {}

  /// Returns the next piece, at most `most` rows. Claims the job first, and checks after the last
  /// piece that the claim still holds: only then are all rows of one moment.
  JobPiece next(Engine& engine, std::size_t most) {
    JobPiece piece;
    if (!reader_) {
      piece.claim = engine.claim(number_);
      if (!piece.claim) return {.claim = piece.claim, .rows = {}, .last = true};
      claim_ = *piece.claim;
      reader_ = engine.read(number_);
    }
    piece.claim = claim_;
    const Result<bool> more = reader_->next(piece.rows, most);
    if (more && *more) return piece;
    reader_.reset();
    const Result<void> held = engine.renew({number_, claim_.epoch});
    // A job that is not owned any more may also fail to read: then that is the cause to report.
    if (!held) return {.claim = held.error(), .rows = {}, .last = true};
    if (!more) return {.claim = more.error(), .rows = {}, .last = true};
    piece.last = true;
    return piece;
  }

 private:
  const JobNumber number_;
  Claim claim_;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace c10dd::store
