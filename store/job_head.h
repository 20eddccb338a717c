// SPDX-License-Identifier: Apache-2.0
// The head of a job, and the rule by which every engine decides whether it applies a batch. The
// memory and RocksDB engines use HeadCheck; the Redis script applies the same rule.
#pragma once

#include <boost/describe/class.hpp>
#include <string>

#include "store/engine.h"

namespace c10dd::store {

/// Format of the stored data. Raise the number if an older daemon would misread an engine's own
/// data, or the rows that daemon/core stores in an engine.
inline constexpr std::uint32_t kStoredFormat = 3;

/// The data that an engine stores for a job besides the rows of the job.
struct JobHead {
  Epoch epoch = 0;
  Revision revision = 0;
  /// Revision of the job before the newest commit() that changed the job. A batch inside
  /// `repeat_from` .. `revision` is a repeat. A claim sets `repeat_from` to `revision`.
  Revision repeat_from = 0;

  bool operator==(const JobHead&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobHead, (), (epoch, revision, repeat_from))

/// Returns whether to_rev is above from_rev or, in a batch without rows, equal to from_rev.
inline bool well_formed(const JobBatch& batch) {
  return batch.to_rev > batch.from_rev || (batch.to_rev == batch.from_rev && batch.rows.empty());
}

inline Failure not_owner(const Ownership& owner) {
  return failure(Code::not_owner, "job {}: a newer claim has replaced the claim of epoch {}",
                 owner.job, owner.epoch);
}

/// The failure of a claim whose precondition is missing.
inline Failure precondition_failed(JobNumber job) {
  return failure(Code::state_rolled_back,
                 "job {} cannot be claimed: the engine no longer has the job directory that this "
                 "daemon has read; its state was erased or replaced",
                 job);
}

enum class BatchCheck : std::uint8_t {
  apply,     ///< the batch follows the head: write its rows
  repeated,  ///< the batch is already written, or to_rev equals from_rev: write nothing
  fenced,    ///< refuse the batch: its epoch is wrong, or its revisions do not fit the head
  lost,      ///< refuse the batch of the owner: the head is behind it
  absent,    ///< refuse the batch: the job has no head
};

inline Outcome outcome_of(BatchCheck check) {
  switch (check) {
    case BatchCheck::fenced:
      return Outcome::fenced;
    case BatchCheck::lost:
      return Outcome::lost;
    case BatchCheck::absent:
      return Outcome::absent;
    default:
      return Outcome::durable;
  }
}

/// Takes the batches of one job in one commit(), in order. Decides for each batch whether the
/// engine applies it. Advances the head of the job with each batch that is to be applied.
class HeadCheck {
 public:
  explicit HeadCheck(JobHead& head) : head_(head) {}

  BatchCheck step(const JobBatch& batch) {
    C10DD_ASSERT(well_formed(batch));
    if (batch.epoch != head_.epoch) return BatchCheck::fenced;
    if (batch.from_rev == head_.revision) {
      accept(batch);
      if (batch.to_rev == batch.from_rev) return BatchCheck::repeated;  // it has no rows
      head_.revision = batch.to_rev;
      head_.repeat_from = first_;
      return BatchCheck::apply;
    }
    if (batch.from_rev > head_.revision) return BatchCheck::lost;
    if (batch.from_rev < head_.repeat_from || batch.to_rev > head_.revision) {
      return BatchCheck::fenced;
    }
    accept(batch);
    return BatchCheck::repeated;
  }

 private:
  /// Records that a batch is accepted. Keeps the from_rev of the first accepted batch, because this
  /// commit() begins at that revision.
  void accept(const JobBatch& batch) {
    if (!accepted_) first_ = batch.from_rev;
    accepted_ = true;
  }

  JobHead& head_;
  Revision first_ = 0;     // from_rev of the first accepted batch; becomes repeat_from
  bool accepted_ = false;  // whether there is one
};

}  // namespace c10dd::store
