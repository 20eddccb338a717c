// SPDX-License-Identifier: Apache-2.0
// Reads a job from an engine in pieces, so that the engine can serve other jobs between the pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// A piece of the rows of a job that is being loaded.
struct JobPiece {
  Result<ClaimReply> claim = ClaimReply(Claim{});  ///< a failure or a refusal ends the load
  std::vector<Row> rows;
  bool last = false;  ///< no piece follows: the load is complete or has failed
  std::optional<std::uint64_t> stored = {};  ///< RowReader::rows()
};

/// One load of a job. Used only on the thread that calls the engine.
class JobLoad {
 public:
  explicit JobLoad(JobNumber number, ClaimTerms terms = {})
      : number_(number), terms_(std::move(terms)) {}

  /// Returns the next piece, with at most `most` rows. The first call claims the job. The call that
  /// reads the last piece checks that the claim still holds, because after a change of the owner
  /// some rows may be newer than others.
  JobPiece next(Engine& engine, std::size_t most) {
    JobPiece piece;
    if (!reader_) {
      piece.claim = engine.claim(number_, terms_);
      const auto* claimed = piece.claim ? std::get_if<Claim>(&*piece.claim) : nullptr;
      if (claimed == nullptr) return {.claim = piece.claim, .rows = {}, .last = true};
      claim_ = *claimed;
      reader_ = engine.read(number_);
    }
    piece.claim = ClaimReply(claim_);
    const Result<bool> more = reader_->next(piece.rows, most);
    piece.stored = reader_->rows();
    if (more && *more) return piece;
    reader_.reset();
    const Result<void> held = engine.renew({number_, claim_.epoch});
    // A lost claim may have made the read fail, so report the lost claim and not the failed read.
    if (!held) return {.claim = held.error(), .rows = {}, .last = true};
    if (!more) return {.claim = more.error(), .rows = {}, .last = true};
    piece.last = true;
    return piece;
  }

 private:
  const JobNumber number_;
  const ClaimTerms terms_;
  Claim claim_;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace c10dd::store
