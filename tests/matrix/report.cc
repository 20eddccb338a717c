// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/report.h"

#include <array>

#include "protocol/format.h"

namespace c10dd::matrix {

void Report::add(const Plan& plan, const Result& result) {
  std::size_t wrong = 0;
  for (const std::string& text : result.wrong) wrong += text.empty() ? 0 : 1;
  std::string ranks;
  for (const RanksAs one : {RanksAs::processes, RanksAs::threads}) {
    if (!has_ranks_as(plan, one)) continue;
    ranks += format("{}{}", ranks.empty() ? "" : " and ", name_of(one));
  }
  sections_.push_back(format("## {}, cpu\n\n{}; ranks as {}; {} cells, {} wrong.\n\n{}",
                             plan.backend, result.describe, ranks, plan.cells.size(), wrong,
                             table(plan, result)));
}

std::string Report::table(const Plan& plan, const Result& result) const {
  struct Count {
    std::size_t cells = 0;
    std::size_t wrong = 0;
  };
  std::array<std::array<Count, kDTypes>, kForms.size()> counts{};
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    const Cell& cell = plan.cells[i];
    Count& count =
        counts[static_cast<std::size_t>(cell.form)][static_cast<std::size_t>(cell.dtype)];
    ++count.cells;
    count.wrong += result.wrong[i].empty() ? 0 : 1;
  }
  std::string text = "| operation |";
  std::string line = "|---|";
  for (std::size_t dtype = 0; dtype < kDTypes; ++dtype) {
    text += format(" {} |", name_of(static_cast<DType>(dtype)));
    line += "---|";
  }
  text += "\n" + line + "\n";
  for (std::size_t form = 0; form < kForms.size(); ++form) {
    text += format("| {} |", kForms[form]);
    for (const Count& count : counts[form]) {
      text += count.cells == 0   ? std::string(" |")
              : count.wrong == 0 ? format(" {} |", count.cells)
                                 : format(" {} of {} wrong |", count.wrong, count.cells);
    }
    text += "\n";
  }
  return text;
}

std::string Report::text() const {
  std::string text =
      "# Backends\n\n"
      "What each backend can do, as `./dev matrix` has found it. A number counts the cells that "
      "were right:\ncombinations of the reduction, 1 to 8 ranks that are processes or threads, "
      "parts from no element to\none element more than 4096 bytes, in place and out of place, in "
      "a world, in a group of `new_group` and in\none of `split`; then large tensors in a world "
      "of 1 to 4 ranks, up to 9 MiB for each rank. Each rank is the\nroot in turn. Inputs are "
      "random, with the edges of their type among them; expected values come from a\nserial "
      "computation (`tests/matrix/values.h`). A barrier has no elements; it is counted once.\n";
  if (pairs_) text += "\nOnly as many cells were run as have every pair of these values.\n";
  for (const std::string& section : sections_) text += "\n" + section;
  return text;
}

}  // namespace c10dd::matrix
