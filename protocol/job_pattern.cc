// SPDX-License-Identifier: Apache-2.0
#include "protocol/job_pattern.h"

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd {

Result<JobPattern> JobPattern::of(std::string_view text) {
  if (text.empty() || text.size() > limits::kNameBytes) {
    return failure(Code::invalid_argument, "a pattern of jobs has {} bytes, but needs 1 to {}",
                   text.size(), limits::kNameBytes);
  }
  const std::size_t star = text.find('*');
  if (star != text.npos && star + 1 != text.size()) {
    return failure(Code::invalid_argument,
                   "\"{}\" has a * that is not at the end; write for example llm-*",
                   printable(text, limits::kNameBytes));
  }
  return JobPattern(text.substr(0, star), star != text.npos);
}

bool JobPattern::fits(std::string_view job) const {
  return is_prefix_ ? job.starts_with(text_) : job == text_;
}

}  // namespace c10dd
