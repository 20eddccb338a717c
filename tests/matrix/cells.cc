// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/cells.h"

#include <random>
#include <unordered_set>

#include "protocol/format.h"

namespace c10dd::matrix {
namespace {

bool reduces(Form form) {
  return form == Form::all_reduce || form == Form::reduce || form == Form::reduce_scatter_single ||
         form == Form::reduce_scatter;
}

/// Returns the places that the form has: whether its input may be where its output is.
std::vector<bool> places_of(Form form) {
  switch (form) {
    case Form::all_reduce:
    case Form::broadcast:
    case Form::reduce:
      return {true};
    case Form::all_to_all_single:
    case Form::all_to_all:
    case Form::barrier:
    case Form::message:
      return {false};
    default:
      return {false, true};
  }
}

bool is_allowed(const Cell& cell) {
  if (cell.form == Form::barrier) {
    return cell.dtype == DType::float32 && cell.size == Size::none && cell.reduce == kNoReduction;
  }
  if (cell.form == Form::message && cell.ranks < 2) return false;
  if (!reduces(cell.form)) return cell.reduce == kNoReduction;
  return cell.reduce != kNoReduction &&
         combines(ReduceOp(static_cast<ReduceOp::Kind>(cell.reduce)), cell.dtype);
}

constexpr std::size_t kDimensions = 7;

/// A number for each pair of values of two dimensions.
std::vector<std::uint32_t> pairs_of(const Cell& cell) {
  const std::array<std::uint32_t, kDimensions> values = {static_cast<std::uint32_t>(cell.form),
                                                         static_cast<std::uint32_t>(cell.dtype),
                                                         cell.reduce,
                                                         cell.ranks,
                                                         static_cast<std::uint32_t>(cell.size),
                                                         cell.in_place,
                                                         static_cast<std::uint32_t>(cell.opened)};
  std::vector<std::uint32_t> pairs;
  for (std::uint32_t a = 0; a < kDimensions; ++a) {
    for (std::uint32_t b = a + 1; b < kDimensions; ++b) {
      pairs.push_back(((a * kDimensions + b) << 16) | values[a] << 8 | values[b]);
    }
  }
  return pairs;
}

using Pairs = std::unordered_set<std::uint32_t>;

Pairs all_pairs(const std::vector<Cell>& cells) {
  Pairs pairs;
  for (const Cell& cell : cells) {
    for (const std::uint32_t pair : pairs_of(cell)) pairs.insert(pair);
  }
  return pairs;
}

}  // namespace

std::size_t Cell::count() const {
  const std::size_t segment = 4096 / size_of(dtype);
  switch (size) {
    case Size::none:
      return 0;
    case Size::one:
      return 1;
    case Size::odd:
      return 257;
    case Size::below_segment:
      return segment - 1;
    case Size::segment:
      return segment;
    case Size::above_segment:
      break;
  }
  return segment + 1;
}

std::string Cell::text() const {
  constexpr std::array<std::string_view, kWays> kOpened = {"world", "new_group", "split"};
  std::string text =
      format("{} of {} {}", kForms[static_cast<std::size_t>(form)], count(), name_of(dtype));
  if (reduce != kNoReduction) {
    text += format(" {}", name_of(ReduceOp(static_cast<ReduceOp::Kind>(reduce))));
  }
  return text + format(", {} ranks, {}, {}", ranks, in_place ? "in place" : "out of place",
                       kOpened[static_cast<std::size_t>(opened)]);
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  Cell cell;
  const auto add_places = [&] {
    for (const bool in_place : places_of(cell.form)) {
      cell.in_place = in_place;
      for (std::size_t way = 0; way < kWays; ++way) {
        cell.opened = static_cast<Opened>(way);
        if (is_allowed(cell)) cells.push_back(cell);
      }
    }
  };
  for (std::size_t form = 0; form < kForms.size(); ++form) {
    for (std::size_t dtype = 0; dtype < kDTypes; ++dtype) {
      for (std::uint8_t reduce = 0; reduce <= kNoReduction; ++reduce) {
        for (Rank ranks = 1; ranks <= kRanksMax; ++ranks) {
          for (std::size_t size = 0; size < kSizes; ++size) {
            cell = {.form = static_cast<Form>(form),
                    .dtype = static_cast<DType>(dtype),
                    .reduce = reduce,
                    .ranks = ranks,
                    .size = static_cast<Size>(size)};
            add_places();
          }
        }
      }
    }
  }
  return cells;
}

std::vector<Cell> choose_pairs(const std::vector<Cell>& all, std::uint64_t seed) {
  constexpr int kCandidates = 300;
  std::mt19937_64 random(seed);
  Pairs missing = all_pairs(all);
  std::vector<Cell> chosen;
  const auto gain = [&](const Cell& cell) {
    std::size_t count = 0;
    for (const std::uint32_t pair : pairs_of(cell)) count += missing.count(pair);
    return count;
  };
  while (!missing.empty()) {
    const Cell* best = nullptr;
    std::size_t most = 0;
    // When random cells bring nothing more, looks at all.
    for (int i = 0; i < kCandidates; ++i) {
      const Cell& cell = all[random() % all.size()];
      const std::size_t brought = gain(cell);
      if (brought > most) most = brought, best = &cell;
    }
    for (std::size_t i = 0; best == nullptr; ++i) {
      if (gain(all[i]) > 0) best = &all[i];
    }
    for (const std::uint32_t pair : pairs_of(*best)) missing.erase(pair);
    chosen.push_back(*best);
  }
  return chosen;
}

std::size_t uncovered_pairs(const std::vector<Cell>& all, const std::vector<Cell>& chosen) {
  Pairs missing = all_pairs(all);
  for (const std::uint32_t pair : all_pairs(chosen)) missing.erase(pair);
  return missing.size();
}

}  // namespace c10dd::matrix
