// SPDX-License-Identifier: Apache-2.0
// The rule that every engine applies to a batch before its rows: whose it is and where it belongs.
// Engines in this process use this class; Redis applies the same rule in its script.
#pragma once

#include <boost/describe/class.hpp>
#include <string>

#include "store/engine.h"

namespace c10dd::store {

/// Of what the engines keep: raised when an older daemon would misread it, or the rows of
/// daemon/core in it.
inline constexpr std::uint32_t kStoredFormat = 3;

/// What an engine keeps of a job besides its rows.
struct JobHead {
  Epoch epoch = 0;
  Revision revision = 0;
  /// Where the newest commit() that changed the job began: what lies between may be repeated.
  Revision repeat_from = 0;

  bool operator==(const JobHead&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobHead, (), (epoch, revision, repeat_from))

inline bool well_formed(const JobBatch& batch) {
  return batch.to_rev > batch.from_rev || (batch.to_rev == batch.from_rev && batch.rows.empty());
}

inline Failure not_owner(const Ownership& owner) {
  return failure(Code::not_owner, "job " + std::to_string(owner.job) + ": epoch " +
                                      std::to_string(owner.epoch) + " is fenced by a newer claim");
}

enum class BatchCheck : std::uint8_t {
  apply,     ///< the next after the head: its rows are to be written
  repeated,  ///< already written
  fenced,
};

/// Judges the batches of one commit() for one job, in order, and moves the head along.
class HeadCheck {
 public:
  explicit HeadCheck(JobHead& head) : head_(head) {}

  BatchCheck step(const JobBatch& batch) {
    C10DD_ASSERT(well_formed(batch));
    if (batch.epoch != head_.epoch) return BatchCheck::fenced;
    if (batch.from_rev == head_.revision) {
      accept(batch);
      if (batch.to_rev == batch.from_rev) return BatchCheck::repeated;  // nothing to write
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
  void accept(const JobBatch& batch) {
    if (!accepted_) first_ = batch.from_rev;
    accepted_ = true;
  }

  JobHead& head_;
  Revision first_ = 0;
  bool accepted_ = false;
};

}  // namespace c10dd::store
