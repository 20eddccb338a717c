// SPDX-License-Identifier: Apache-2.0
// The head of a job, and the rule by which every engine decides whether it applies a batch. The
// memory and RocksDB engines use HeadCheck; the Redis script applies the same rule.
#pragma once

#include <boost/describe/class.hpp>
#include <string>

#include "store/engine.h"

namespace c10dd::store {

/// Format of the stored data. Raise the number if an older daemon would misread the data of an
/// engine, or the rows that daemon/core stores in it.
inline constexpr std::uint32_t kStoredFormat = 3;

/// The data that an engine stores for a job besides the rows of the job.
struct JobHead {
  Epoch epoch = 0;
  Revision revision = 0;
  /// Revision of the job before the newest commit() that changed it. Batches between this revision
  /// and `revision` may be committed again.
  Revision repeat_from = 0;

  bool operator==(const JobHead&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobHead, (), (epoch, revision, repeat_from))

/// Returns whether to_rev is above from_rev. Also accepts equal revisions if there are no rows.
inline bool well_formed(const JobBatch& batch) {
  return batch.to_rev > batch.from_rev || (batch.to_rev == batch.from_rev && batch.rows.empty());
}

inline Failure not_owner(const Ownership& owner) {
  return failure(Code::not_owner, "job {}: epoch {} is fenced by a newer claim", owner.job,
                 owner.epoch);
}

enum class BatchCheck : std::uint8_t {
  apply,     ///< the batch follows the head: write its rows
  repeated,  ///< the batch is already written, or has no rows: write nothing
  fenced,    ///< refuse the batch: it has another epoch, or does not follow the head
};

/// Checks, in order, the batches of one job in one commit(). Advances the head of the job.
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
    if (batch.from_rev < head_.repeat_from || batch.to_rev > head_.revision) {
      return BatchCheck::fenced;
    }
    accept(batch);
    return BatchCheck::repeated;
  }

 private:
  /// Notes the revision at which this commit() began: from_rev of the first accepted batch.
  void accept(const JobBatch& batch) {
    if (!accepted_) first_ = batch.from_rev;
    accepted_ = true;
  }

  JobHead& head_;
  Revision first_ = 0;     // from_rev of the first accepted batch; becomes repeat_from
  bool accepted_ = false;  // whether there is one
};

}  // namespace c10dd::store
