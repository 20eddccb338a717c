// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/directory_rows.h"

#include <algorithm>
#include <span>
#include <vector>

namespace c10dd::core {

Result<DirectoryRead> read_directory(store::Engine& engine, const Directory::Limits& limits,
                                     std::uint64_t random, TimePoint now) {
  constexpr JobNumber kNumber = Directory::kNumber;
  const Result<store::Claim> claim = engine.claim(kNumber);
  if (!claim) return claim.error();
  DirectoryRead read{.directory = std::make_unique<Directory>(claim->revision, limits),
                     .rolled_back = {}};
  Directory& directory = *read.directory;
  Result<void> restored;
  // The first damaged row decides the result. The rows after it are read but ignored.
  const Result<void> loaded = engine.load(kNumber, [&](const Row& row) {
    if (restored) restored = directory.restore(row);
  });
  if (!loaded) return loaded.error();
  if (!restored) return restored.error();
  read.rolled_back = engine.rolled_back();
  Effects effects = directory.resume(random, !read.rolled_back.empty(), now);
  if (effects.rows.empty()) return read;
  const store::JobBatch batch{kNumber, claim->epoch, claim->revision, effects.revision,
                              std::move(effects.rows)};
  if (engine.commit(std::span(&batch, 1)).front() != store::Outcome::durable) {
    return failure(Code::unavailable, "the engine did not commit the directory of jobs");
  }
  if (!read.rolled_back.empty()) engine.renewed();
  return read;
}

bool write_directory(store::Engine& engine, const DirectoryHost::DirectoryBatch& change) {
  std::vector<store::JobBatch> batches;
  for (const JobNumber number : change.erased) {
    // The new claim fences the batches of the old claim, so that these batches write no row after
    // the erasure.
    const Result<store::Claim> claim = engine.claim(number);
    if (!claim) return false;
    batches.push_back({number,
                       claim->epoch,
                       claim->revision,
                       claim->revision + 1,
                       {{Row::Kind::erase_prefix, {}, {}}}});
  }
  // Only one daemon uses the directory of an engine, so the new claim fences no other daemon.
  const Result<store::Claim> owner = engine.claim(Directory::kNumber);
  if (!owner) return false;
  batches.push_back({Directory::kNumber, owner->epoch, change.from, change.to, change.rows});
  const std::vector<store::Outcome> outcomes = engine.commit(batches);
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [](store::Outcome outcome) { return outcome == store::Outcome::durable; });
}

}  // namespace c10dd::core
