// SPDX-License-Identifier: Apache-2.0
// What all engines share, and the virtual tables of the interface.
#include "store/engine.h"

#include <algorithm>
#include <utility>

namespace c10dd::store {

RowReader::~RowReader() = default;
Engine::~Engine() = default;

Result<Claim> Engine::claim(JobNumber job) {
  Result<ClaimReply> reply = claim(job, ClaimTerms{});
  if (!reply) return reply.error();
  if (auto* claimed = std::get_if<Claim>(&*reply)) return std::move(*claimed);
  return failure(Code::not_owner, "job {} belongs to another daemon", job);
}

Result<std::optional<Changes>> Engine::changes(JobNumber, Revision) {
  return std::optional<Changes>();
}

Engine::Outcomes Engine::commit_and_confirm(std::span<const JobBatch> batches,
                                            std::span<const Ownership> owners) {
  Outcomes outcomes;
  if (!batches.empty()) outcomes.commits = commit(batches);
  if (std::ranges::count(outcomes.commits, Outcome::unknown) > 0) {
    outcomes.confirms.assign(owners.size(), Outcome::unknown);
  } else if (!owners.empty()) {
    outcomes.confirms = confirm(owners);
  }
  return outcomes;
}

Result<void> Engine::load(JobNumber job, const std::function<void(Row)>& each) {
  constexpr std::size_t kRows = 1'024;
  const std::unique_ptr<RowReader> reader = read(job);
  for (bool more = true; more;) {
    std::vector<Row> rows;
    const Result<bool> read = reader->next(rows, kRows);
    if (!read) return read.error();
    for (Row& row : rows) each(std::move(row));
    more = *read;
  }
  return {};
}

}  // namespace c10dd::store
