// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/directory/directory_reading.h"

#include <utility>
#include <vector>

#include "daemon/core/planted.h"

namespace c10dd::core {

using News = std::optional<DirectoryNews>;

Result<News> DirectoryReading::step(store::Engine& engine) {
  if (known_) return follow(engine);
  if (!reader_) {
    if (Result<void> begun = begin(engine); !begun) return begun.error();
  }
  std::vector<Row> piece;
  const Result<bool> more = reader_->next(piece, piece_rows_);
  if (!more) return more.error();
  for (Row& row : piece) rows_.insert_or_assign(std::move(row.key), std::move(row.value));
  if (*more) return News();
  reader_.reset();
  return finish(engine);
}

/// Reads the changes. If the engine does not have them, the next step begins to read everything.
Result<News> DirectoryReading::follow(store::Engine& engine) {
  const Revision known = *std::exchange(known_, {});
  Result<std::optional<store::Changes>> changes = engine.changes(Directory::kNumber, known);
  if (!changes) return changes.error();
  if (!*changes && planted(Planted::gap_overlooked)) {
    return News({.revision = engine.claim(Directory::kNumber)->revision});
  }
  if (!*changes) return News();
  return News({.changes = std::move((*changes)->rows), .revision = (*changes)->revision});
}

Result<void> DirectoryReading::begin(store::Engine& engine) {
  const Result<store::Claim> claim = engine.claim(Directory::kNumber);
  if (!claim) return claim.error();
  first_ = claim->revision;
  rows_.clear();
  reader_ = engine.read(Directory::kNumber);
  ++readings_;
  return {};
}

/// Applies what has changed since the first step. A row that was changed is there as it was before
/// or after, or not at all, and the change has it whole.
Result<News> DirectoryReading::finish(store::Engine& engine) {
  store::Changes changes{first_, {}};
  if (planted(Planted::half_read_directory)) {
    changes.revision = engine.claim(Directory::kNumber)->revision;
  } else if (engine.shared()) {
    Result<std::optional<store::Changes>> since = engine.changes(Directory::kNumber, first_);
    if (!since) return since.error();
    if (!*since) return News();
    changes = std::move(**since);
  }
  for (const RowView& row : changes.rows) store::apply(row, rows_);
  if (changes.row_count.value_or(rows_.size()) != rows_.size()) {
    return failure(Code::malformed,
                   "the job directory should have {} rows, but {} were read: rows were erased or "
                   "evicted; restore a backup of the server",
                   *changes.row_count, rows_.size());
  }
  DirectoryNews news{.whole = std::make_unique<Directory>(changes.revision, limits_),
                     .revision = changes.revision};
  for (const auto& [key, value] : rows_) {
    Result<void> restored = news.whole->restore({Row::Kind::put, key, value});
    if (!restored) return restored.error();
  }
  return News(std::move(news));
}

}  // namespace c10dd::core
