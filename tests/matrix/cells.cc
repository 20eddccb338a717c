// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/cells.h"

#include <random>

#include "protocol/format.h"

namespace c10dd::matrix {
namespace {

bool reduces(Form form) {
  return form == Form::all_reduce || form == Form::reduce || form == Form::reduce_scatter_single ||
         form == Form::reduce_scatter;
}

bool has_root(Form form) {
  return form == Form::broadcast || form == Form::reduce || form == Form::gather_single ||
         form == Form::gather || form == Form::scatter_single || form == Form::scatter;
}

/// Returns the places that the form has: whether its input may be where its output is.
std::vector<bool> places_of(Form form) {
  switch (form) {
    case Form::all_reduce:
    case Form::broadcast:
    case Form::reduce:
      return {true};
    case Form::all_to_all_single:
    case Form::all_to_all_splits:
    case Form::all_to_all:
    case Form::barrier:
    case Form::message:
      return {false};
    default:
      return {false, true};
  }
}

/// Returns what ranks can be over a backend.
std::vector<RanksAs> ranks_over(const std::string& backend) {
  if (backend == "loopback") return {RanksAs::threads};
  if (backend == "mpi") return {RanksAs::processes};  // MPI has one rank for each process
  return {RanksAs::processes, RanksAs::threads};
}

/// Returns whether large parts are those of whole tensors, and not the smaller ones.
bool is_whole(Form form) {
  return form == Form::all_reduce || form == Form::broadcast || form == Form::reduce ||
         form == Form::all_gather_single || form == Form::all_gather || form == Form::message;
}

bool is_allowed_large(const Cell& cell) {
  const bool adds = cell.reduce == ReduceOp::sum || cell.reduce == ReduceOp::avg;
  return cell.ranks <= kLargeRanksMax && cell.opened == Opened::as_world &&
         (adds || cell.reduce == kNoReduction || cell.dtype == DType::float32);
}

bool is_allowed(const Cell& cell) {
  if (cell.form == Form::barrier) {
    return cell.dtype == DType::float32 && cell.size == Size::none && cell.reduce == kNoReduction;
  }
  if (cell.size == Size::large && !is_allowed_large(cell)) return false;
  if (cell.form == Form::message && cell.ranks < 2) return false;
  if (!reduces(cell.form)) return cell.reduce == kNoReduction;
  return cell.reduce != kNoReduction &&
         combines(ReduceOp(static_cast<ReduceOp::Kind>(cell.reduce)), cell.dtype);
}

/// Returns the rank whose turn it is: the next one with the next value of any other dimension.
Rank root_of(const Cell& cell) {
  if (!has_root(cell.form)) return 0;
  const auto turn = static_cast<Rank>(cell.form) + static_cast<Rank>(cell.dtype) + cell.reduce +
                    static_cast<Rank>(cell.size) + static_cast<Rank>(cell.opened) +
                    static_cast<Rank>(cell.ranks_as) + (cell.in_place ? 1 : 0);
  return turn % cell.ranks;
}

constexpr std::size_t kDimensions = 9;
constexpr std::size_t kValues = 16;  // of a dimension, at most
constexpr std::size_t kPairs = kDimensions * (kDimensions - 1) / 2;

/// A number for each pair of values of two dimensions.
std::array<std::size_t, kPairs> pairs_of(const Cell& cell) {
  const std::array<std::size_t, kDimensions> values = {static_cast<std::size_t>(cell.form),
                                                       static_cast<std::size_t>(cell.dtype),
                                                       cell.reduce,
                                                       cell.ranks,
                                                       static_cast<std::size_t>(cell.size),
                                                       cell.in_place,
                                                       static_cast<std::size_t>(cell.opened),
                                                       static_cast<std::size_t>(cell.ranks_as),
                                                       cell.root};
  static_assert(kForms.size() <= kValues && kDTypes <= kValues && kReduceOps < kValues);
  std::array<std::size_t, kPairs> pairs{};
  std::size_t number = 0;
  for (std::size_t a = 0; a < kDimensions; ++a) {
    for (std::size_t b = a + 1; b < kDimensions; ++b, ++number) {
      pairs[number] = (number * kValues + values[a]) * kValues + values[b];
    }
  }
  return pairs;
}

/// A set of pairs.
class Pairs {
 public:
  explicit Pairs(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) {
      for (const std::size_t pair : pairs_of(cell)) {
        size_ += has_[pair] ? 0 : 1;
        has_[pair] = true;
      }
    }
  }

  void erase(const Cell& cell) {
    for (const std::size_t pair : pairs_of(cell)) {
      size_ -= has_[pair] ? 1 : 0;
      has_[pair] = false;
    }
  }
  /// Returns how many pairs of the cell are in the set.
  std::size_t count(const Cell& cell) const {
    std::size_t count = 0;
    for (const std::size_t pair : pairs_of(cell)) count += has_[pair] ? 1 : 0;
    return count;
  }
  std::size_t size() const { return size_; }

 private:
  std::vector<bool> has_ = std::vector<bool>(kPairs * kValues * kValues);
  std::size_t size_ = 0;
};

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
      return segment + 1;
    case Size::large:
      break;
  }
  if (!is_whole(form)) return 100'003;
  return ((2 * std::size_t{ranks} + 1) << 20) / size_of(dtype) + 3;
}

std::string Cell::text() const {
  constexpr std::array<std::string_view, kWays> kOpened = {"world", "new_group", "split"};
  std::string text =
      format("{} of {} {}", kForms[static_cast<std::size_t>(form)], count(), name_of(dtype));
  if (reduce != kNoReduction) {
    text += format(" {}", name_of(ReduceOp(static_cast<ReduceOp::Kind>(reduce))));
  }
  if (has_root(form)) text += format(", root {}", root);
  return text + format(", {} ranks as {}, {}, {}", ranks, name_of(ranks_as),
                       in_place ? "in place" : "out of place",
                       kOpened[static_cast<std::size_t>(opened)]);
}

std::vector<Cell> all_cells(const std::string& backend) {
  const std::vector<RanksAs> kinds = ranks_over(backend);
  std::vector<Cell> cells;
  Cell cell;
  const auto add_places = [&] {
    for (const bool in_place : places_of(cell.form)) {
      cell.in_place = in_place;
      for (std::size_t way = 0; way < kWays; ++way) {
        cell.opened = static_cast<Opened>(way);
        for (const RanksAs ranks_as : kinds) {
          cell.ranks_as = ranks_as;
          cell.root = root_of(cell);
          if (is_allowed(cell)) cells.push_back(cell);
        }
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
  Pairs missing(all);
  std::vector<Cell> chosen;
  while (missing.size() > 0) {
    const Cell* best = nullptr;
    std::size_t most = 0;
    // When random cells bring nothing more, looks at all.
    for (int i = 0; i < kCandidates; ++i) {
      const Cell& cell = all[random() % all.size()];
      const std::size_t brought = missing.count(cell);
      if (brought > most) most = brought, best = &cell;
    }
    for (std::size_t i = 0; best == nullptr; ++i) {
      if (missing.count(all[i]) > 0) best = &all[i];
    }
    missing.erase(*best);
    chosen.push_back(*best);
  }
  return chosen;
}

std::size_t uncovered_pairs(const std::vector<Cell>& all, const std::vector<Cell>& chosen) {
  Pairs missing(all);
  for (const Cell& cell : chosen) missing.erase(cell);
  return missing.size();
}

}  // namespace c10dd::matrix
