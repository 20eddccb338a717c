// SPDX-License-Identifier: Apache-2.0
// The keys of a job in their shortest form: what each operation does to a map, and its answer.
#pragma once

#include <map>
#include <optional>

#include "protocol/ops.h"

namespace c10dd::sim {

class Model {
 public:
  struct Entry {
    Bytes value;
    Revision revision = 0;

    bool operator==(const Entry&) const = default;
  };

  /// Makes the change at this revision and returns the answer; nothing for operations that this
  /// model does not answer. An answer that is a failure changed nothing.
  std::optional<Answer> apply(const Request& request, Revision revision);

  std::map<Bytes, Entry> keys;

 private:
  std::optional<Answer> transact(const Transact& request, Revision revision);
  bool holds(const Condition& condition) const;
};

}  // namespace c10dd::sim
