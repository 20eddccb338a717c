// SPDX-License-Identifier: Apache-2.0
// The durable changes of the keys of one job, one by one and as versions of each key. The oracles
// compare replies with them.
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

  /// Returns the key as of a revision; null if it was absent.
  const KeyVersion* at(const Bytes& key, Revision revision) const;
  std::vector<Bytes> list(std::string_view prefix, Revision revision) const;

 private:
  std::vector<Change> changes_;
  std::map<Bytes, std::vector<KeyVersion>> keys_;
};

/// Returns the revision that a reply says it has observed; 0 if it names none.
Revision seen_in(const Op& op);

/// The revisions between which the reply of a call must be true: not before the newest that had
/// been replied when the call was made, not after the newest durable one when its reply came.
class Windows {
 public:
  Windows(const Records& records, const std::string& job);

  Revision least(const Op& op) const;
  Revision most(const Op& op) const;
  /// Returns the revisions in the window, including the one at its beginning.
  std::vector<Revision> revisions(const Op& op) const;

 private:
  std::vector<std::pair<std::uint64_t, Revision>> answered_;  // running maximum, by order
  std::vector<std::pair<std::uint64_t, Revision>> durable_;
};

}  // namespace c10dd::sim
