// SPDX-License-Identifier: Apache-2.0
// Rows: 'i' holds the incarnation, 'j' + job + run the number of a job.
#include "daemon/core/directory.h"

#include "daemon/core/row_key.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

Result<void> check_name(const char* what, const std::string& name, bool may_be_empty) {
  const bool plain = printable(name, name.size()) == name;
  if (name.size() <= limits::kNameBytes && plain && (may_be_empty || !name.empty())) return {};
  return failure(Code::invalid_argument,
                 std::string(what) + " name of " + std::to_string(name.size()) + " bytes: 1 to " +
                     std::to_string(limits::kNameBytes) + " bytes of printable UTF-8 are allowed");
}

Bytes number_value(std::uint64_t n) { return RowKey('n').number(n).take(); }

}  // namespace

Result<void> Directory::restore(const Row& row) {
  RowKeyReader key(row.key);
  RowKeyReader value(row.value);
  const std::uint64_t number = value.number();
  bool known = true;
  if (row.key == "i") {
    incarnation_ = number;
  } else if (row.key.starts_with('j')) {
    const std::string job(key.text());
    numbers_[{job, std::string(key.rest())}] = number;
    next_ = std::max(next_, number + 1);
  } else {
    known = false;
  }
  if (!known || !value.complete() || !key.complete()) {
    return failure(Code::malformed, "damaged row in the directory of jobs");
  }
  return {};
}

Effects Directory::resume(std::uint64_t random) {
  Effects out;
  if (incarnation_ == 0) {
    incarnation_ = random == 0 ? 1 : random;
    ++revision_;
    out.rows.push_back({Row::Kind::put, "i", number_value(incarnation_)});
  }
  out.revision = revision_;
  return out;
}

std::optional<JobNumber> Directory::find(const std::string& job, const std::string& run) const {
  const auto it = numbers_.find({job, run});
  if (it == numbers_.end()) return std::nullopt;
  return it->second;
}

Result<JobNumber> Directory::open(const std::string& job, const std::string& run, Effects& out) {
  out.revision = revision_;
  if (const auto known = find(job, run)) return *known;
  if (Result<void> good = check_name("job", job, false); !good) return good.error();
  if (Result<void> good = check_name("run", run, true); !good) return good.error();
  if (numbers_.size() >= limits::kJobs) {
    return failure(Code::quota_exceeded, "too many jobs: " + std::to_string(numbers_.size()) +
                                             ", limit " + std::to_string(limits::kJobs));
  }
  const JobNumber number = next_++;
  numbers_[{job, run}] = number;
  out.rows.push_back(
      {Row::Kind::put, RowKey('j').text(job).rest(run).take(), number_value(number)});
  out.revision = ++revision_;
  return number;
}

}  // namespace c10dd::core
