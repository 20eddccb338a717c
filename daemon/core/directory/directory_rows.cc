// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/directory/directory_rows.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "daemon/core/directory/directory_reading.h"

namespace c10dd::core {
namespace {

using Written = DirectoryHost::Written;

/// How often a directory is read that daemons change meanwhile which keep no changes.
constexpr int kReadings = 20;

/// Reads the whole directory, as it is at one moment.
Result<std::unique_ptr<Directory>> read_whole(store::Engine& engine,
                                              const Directory::Limits& limits) {
  DirectoryReading reading(limits);
  while (reading.readings() <= kReadings) {
    Result<std::optional<DirectoryNews>> news = reading.step(engine);
    if (!news) return news.error();
    if (*news) return std::move((*news)->whole);
  }
  return failure(Code::unavailable,
                 "read the job directory {} times; a daemon of an older version changed it each "
                 "time without reporting the changes",
                 kReadings);
}

/// Commits a change of a directory that daemons share, if this daemon owns all jobs that leave it.
Written write_shared(store::Engine& engine, const DirectoryHost::DirectoryBatch& change) {
  Written written;
  store::JobBatch batch{Directory::kNumber, 0,  change.from, change.to,
                        change.rows,        {}, change.turn};
  for (const JobNumber number : change.erased) {
    const Result<store::ClaimReply> claim = engine.claim(number, store::ClaimTerms{});
    if (!claim) return written;
    if (const auto* mine = std::get_if<store::Claim>(&*claim)) {
      batch.guards.push_back({number, mine->epoch});
    } else {
      written.held.push_back(number);
    }
  }
  if (!written.held.empty()) {
    written.outcome = Written::Outcome::held;
    return written;
  }
  const store::Outcome outcome = engine.commit(std::span(&batch, 1)).front();
  if (outcome == store::Outcome::durable) written.outcome = Written::Outcome::durable;
  if (outcome == store::Outcome::fenced) written.outcome = Written::Outcome::moved;
  return written;
}

}  // namespace

Result<std::vector<JobNumber>> nameless_jobs(store::Engine& engine,
                                             const Directory::Limits& limits) {
  Result<std::vector<JobNumber>> before = engine.jobs();
  if (!before) return before.error();
  const Result<std::unique_ptr<Directory>> read = read_whole(engine, limits);
  if (!read) return read.error();
  // A job that was retired meanwhile is not listed any more.
  const Result<std::vector<JobNumber>> after = engine.jobs();
  if (!after) return after.error();
  std::vector<JobNumber> listed;
  std::ranges::set_intersection(*before, *after, std::back_inserter(listed));
  const Directory& directory = **read;
  std::erase_if(listed, [&](JobNumber job) {
    return job == Directory::kNumber || directory.marks().contains(job) || directory.knows(job);
  });
  return listed;
}

Result<DirectoryRead> read_directory(store::Engine& engine, const Directory::Limits& limits,
                                     std::uint64_t random, TimePoint now,
                                     const AcceptedLoss& loss) {
  for (int tries = 0; tries < kReadings; ++tries) {
    Result<std::unique_ptr<Directory>> whole = read_whole(engine, limits);
    if (!whole) return whole.error();
    DirectoryRead read{.directory = std::move(*whole),
                       .rolled_back = std::string(engine.rolled_back())};
    if (read.rolled_back.empty()) read.rolled_back = loss.why;
    const Revision before = read.directory->revision();
    Effects effects = read.directory->resume(random, !read.rolled_back.empty(), now);
    read.directory->mark_nameless(loss.nameless, effects);
    if (effects.rows.empty()) return read;
    const Result<store::Claim> claim = engine.claim(Directory::kNumber);
    if (!claim) return claim.error();
    const store::JobBatch batch{
        Directory::kNumber, claim->epoch, before, effects.revision, std::move(effects.rows), {}};
    const store::Outcome outcome = engine.commit(std::span(&batch, 1)).front();
    if (outcome == store::Outcome::fenced && engine.shared()) continue;  // another daemon did it
    if (outcome != store::Outcome::durable) break;
    if (!read.rolled_back.empty()) engine.renewed();
    return read;
  }
  return failure(Code::unavailable, "the engine did not commit the job directory");
}

Written write_directory(store::Engine& engine, const DirectoryHost::DirectoryBatch& change) {
  if (engine.shared()) return write_shared(engine, change);
  std::vector<store::JobBatch> batches;
  for (const JobNumber number : change.erased) {
    // The new claim fences the batches of the old claim, so that these batches write no row after
    // the erasure.
    const Result<store::Claim> claim = engine.claim(number);
    if (!claim) return {};
    batches.push_back({number,
                       claim->epoch,
                       claim->revision,
                       claim->revision + 1,
                       {{Row::Kind::erase_prefix, {}, {}}},
                       {}});
  }
  // Only one daemon uses the directory of an engine, so the new claim fences no other daemon.
  const Result<store::Claim> owner = engine.claim(Directory::kNumber);
  if (!owner) return {};
  batches.push_back({Directory::kNumber, owner->epoch, change.from, change.to, change.rows, {}});
  const std::vector<store::Outcome> outcomes = engine.commit(batches);
  const bool durable = std::all_of(outcomes.begin(), outcomes.end(), [](store::Outcome outcome) {
    return outcome == store::Outcome::durable;
  });
  return {durable ? Written::Outcome::durable : Written::Outcome::lost, {}};
}

}  // namespace c10dd::core
