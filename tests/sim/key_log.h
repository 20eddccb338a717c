// SPDX-License-Identifier: Apache-2.0
// The durable changes of the keys of one job, one by one and as versions of each key: what the
// oracles hold answers against.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tests/sim/records.h"

namespace c10dd::sim {

struct KeyVersion {
  Revision revision = 0;
  std::optional<Bytes> value;
  std::uint64_t step = 0;  ///< index in the log
};

class KeyLog {
 public:
  explicit KeyLog(const std::vector<Step>& log);

  const std::vector<Change>& changes() const { return changes_; }
  const std::map<Bytes, std::vector<KeyVersion>>& keys() const { return keys_; }

  /// The key as of a revision; nullptr: absent.
  const KeyVersion* at(const Bytes& key, Revision revision) const;
  std::vector<Bytes> list(std::string_view prefix, Revision revision) const;

 private:
  std::vector<Change> changes_;
  std::map<Bytes, std::vector<KeyVersion>> keys_;
};

/// The revision that an answer itself says it has seen; 0 when it says nothing.
Revision seen_in(const Op& op);

/// Between which revisions the answer of a call must be true: not before what had been answered
/// when it was made, not after what was durable when it was answered.
class Windows {
 public:
  Windows(const Records& records, const std::string& job);

  Revision least(const Op& op) const;
  Revision most(const Op& op) const;
  /// The revisions in the window, also the one at its beginning.
  std::vector<Revision> revisions(const Op& op) const;

 private:
  std::vector<std::pair<std::uint64_t, Revision>> answered_;  // running maximum, by order
  std::vector<std::pair<std::uint64_t, Revision>> durable_;
};

}  // namespace c10dd::sim
