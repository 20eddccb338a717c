// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/worker.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <numeric>
#include <utility>

#include "client/errors.h"
#include "collectives/process_group.h"
#include "protocol/format.h"
#include "tests/matrix/faults.h"
#include "tests/matrix/run_cell.h"

namespace c10dd::matrix {
namespace {

using namespace std::chrono_literals;

/// The file with what a rank has found. Its first line is ProcessGroup::describe().
std::filesystem::path file_of(const std::filesystem::path& directory, RanksAs ranks, Rank rank) {
  return directory / format("{} {}", name_of(ranks), rank);
}

/// The groups of one rank: of each number of ranks, opened in each way. Null where the rank is no
/// member.
class Groups {
 public:
  Groups(const Plan& plan, RanksAs ranks, const std::shared_ptr<Client>& client, Rank rank)
      : plan_(plan) {
    const auto world = [&](Rank size) {
      return World{
          .rank = rank, .size = size, .name = format("matrix {} {}", name_of(ranks), size)};
    };
    const GroupOptions options{.backend = plan.backend, .timeout = 60s, .open_timeout = 60s};
    const auto all = ProcessGroup::open(client, world(kRanksMax), options);
    describe_ = all->describe();
    for (Rank size = 1; size <= kRanksMax; ++size) {
      auto& [as_world, by_new_group, by_split] = groups_[size];
      if (size == kRanksMax) as_world = all;
      if (rank < size && size < kRanksMax)
        as_world = ProcessGroup::open(client, world(size), options);
      std::vector<Rank> last(size);  // the highest ranks, the highest first
      for (Rank i = 0; i < size; ++i) last[i] = kRanksMax - 1 - i;
      if (rank >= kRanksMax - size) by_new_group = all->new_group(last);
      // In the order of their ranks turned round.
      by_split = all->split(rank < size ? 0 : -1, -static_cast<std::int32_t>(rank));
    }
  }

  std::shared_ptr<ProcessGroup> of(const Cell& cell) {
    const auto& group = groups_[cell.ranks][static_cast<std::size_t>(cell.opened)];
    return group && plan_.fault ? with_fault(group, *plan_.fault) : group;
  }

  const std::string& describe() const { return describe_; }

 private:
  const Plan& plan_;
  std::array<std::array<std::shared_ptr<ProcessGroup>, kWays>, kRanksMax + 1> groups_;
  std::string describe_;
};

/// Returns the text as one line.
std::string in_a_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

bool has_ranks_as(const Plan& plan, RanksAs ranks) {
  return std::ranges::any_of(plan.cells,
                             [ranks](const Cell& cell) { return cell.ranks_as == ranks; });
}

void run_rank(const Plan& plan, RanksAs ranks, const std::shared_ptr<Client>& client, Rank rank,
              const std::filesystem::path& directory) {
  std::ofstream out(file_of(directory, ranks, rank));
  Groups groups(plan, ranks, client, rank);
  out << groups.describe() << "\n";
  for (std::size_t number = 0; number < plan.cells.size(); ++number) {
    const Cell& cell = plan.cells[number];
    if (cell.ranks_as != ranks) continue;
    const auto group = groups.of(cell);
    if (!group) continue;
    try {
      const Outcome outcome = run_cell(*group, cell, plan.seed + number * 104'729);
      out << number << " " << outcome.hash << " " << outcome.wrong << "\n";
    } catch (const Error& error) {
      out << number << " 0 " << in_a_line(error.what()) << "\n";
      return;  // the group has ended, and the other ranks' next cells would wait for this rank
    }
  }
  groups.of({.ranks = kRanksMax})->barrier();
}

Result collect(const Plan& plan, const std::filesystem::path& directory) {
  struct Seen {
    Rank ranks = 0;
    std::uint64_t hash = 0;
  };
  Result result{std::vector<std::string>(plan.cells.size()), {}};
  std::vector<Seen> seen(plan.cells.size());
  const auto read = [&](RanksAs ranks, Rank rank) {
    std::ifstream in(file_of(directory, ranks, rank));
    std::getline(in, result.describe);
    std::size_t number = 0;
    std::uint64_t hash = 0;
    std::string wrong;
    while (in >> number >> hash && std::getline(in, wrong)) {
      wrong.erase(0, 1);  // a blank
      std::string& text = result.wrong.at(number);
      if (seen[number].ranks++ > 0 && hash != seen[number].hash && wrong.empty()) {
        wrong = "the ranks have results that differ in their bits";
      }
      seen[number].hash = hash;
      if (!wrong.empty() && text.empty()) text = format("rank {}: {}", rank, wrong);
    }
  };
  for (const RanksAs ranks : {RanksAs::processes, RanksAs::threads}) {
    if (!has_ranks_as(plan, ranks)) continue;
    for (Rank rank = 0; rank < kRanksMax; ++rank) read(ranks, rank);
  }
  for (std::size_t number = 0; number < plan.cells.size(); ++number) {
    std::string& text = result.wrong[number];
    const Rank missing = plan.cells[number].ranks - seen[number].ranks;
    if (missing > 0 && text.empty()) text = format("{} ranks have not run it", missing);
  }
  return result;
}

}  // namespace c10dd::matrix
