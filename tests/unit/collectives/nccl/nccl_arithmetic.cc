// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the stand-in for NCCL. NCCL's avg of floats multiplies by 1/n first; this one
// divides at the end.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "collectives/float16.h"
#include "tests/unit/collectives/nccl/nccl_stand_in.h"

namespace c10dd::stand_in {
namespace {

template <class F>
void with_type(Type type, F f) {
  switch (type) {
    case Type::int8:
      return f(std::type_identity<std::int8_t>());
    case Type::uint8:
      return f(std::type_identity<std::uint8_t>());
    case Type::int32:
      return f(std::type_identity<std::int32_t>());
    case Type::int64:
      return f(std::type_identity<std::int64_t>());
    case Type::float16:
      return f(std::type_identity<Float16>());
    case Type::bfloat16:
      return f(std::type_identity<BFloat16>());
    case Type::float32:
      return f(std::type_identity<float>());
    case Type::float64:
      return f(std::type_identity<double>());
  }
}

template <class T>
using Wide = std::conditional_t<std::is_class_v<T>, float,
                                std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>>;

template <class T>
Wide<T> widen(T value) {
  if constexpr (std::is_integral_v<T>) return static_cast<std::uint64_t>(std::int64_t{value});
  if constexpr (!std::is_integral_v<T>) return static_cast<Wide<T>>(value);
}

template <class T>
double plain(T value) {
  if constexpr (std::is_class_v<T>) return static_cast<float>(value);
  if constexpr (!std::is_class_v<T>) return static_cast<double>(value);
}

/// Of equal elements, max and min return the first.
template <class T>
T combine(Op op, T a, T b) {
  if (op == Op::max) return plain(a) < plain(b) ? b : a;
  if (op == Op::min) return plain(b) < plain(a) ? b : a;
  const Wide<T> result = op == Op::product ? widen(a) * widen(b) : widen(a) + widen(b);
  return static_cast<T>(result);
}

/// Returns the reduction of the elements that begin at `first` of the inputs of all ranks.
template <class T>
std::vector<T> reduced(const std::vector<const Issued*>& ranks, std::size_t first,
                       std::size_t count) {
  const Issued& any = *ranks.front();
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      T value = static_cast<const T*>(ranks[rank]->from)[first + i];
      if constexpr (!std::is_integral_v<T>) {
        if (static_cast<int>(any.op) > static_cast<int>(Op::avg)) {
          value = static_cast<T>(widen(value) * static_cast<Wide<T>>(ranks[rank]->factor));
        }
      }
      result[i] = rank == 0 ? value : combine(any.op, result[i], value);
    }
    if (any.op != Op::avg) continue;
    if constexpr (std::is_integral_v<T>) {
      result[i] = static_cast<T>(std::int64_t{result[i]} / static_cast<std::int64_t>(ranks.size()));
    } else {
      result[i] = static_cast<T>(widen(result[i]) / static_cast<Wide<T>>(ranks.size()));
    }
  }
  return result;
}

void move(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

std::size_t size_of_type(Type type) {
  std::size_t size = 0;
  with_type(type, [&]<class T>(std::type_identity<T>) { size = sizeof(T); });
  return size;
}

double number_of(const void* element, Type type) {
  double number = 0;
  with_type(type, [&]<class T>(std::type_identity<T>) {
    number = plain(*static_cast<const T*>(element));
  });
  return number;
}

void compute(const std::vector<const Issued*>& ranks) {
  const Issued& any = *ranks.front();
  const std::size_t bytes = any.count * size_of_type(any.type);
  with_type(any.type, [&]<class T>(std::type_identity<T>) {
    switch (any.kind) {
      case Kind::all_reduce: {
        const std::vector<T> result = reduced<T>(ranks, 0, any.count);
        for (const Issued* rank : ranks) move(rank->to, result.data(), bytes);
        return;
      }
      case Kind::reduce: {
        const std::vector<T> result = reduced<T>(ranks, 0, any.count);
        return move(ranks[static_cast<std::size_t>(any.root)]->to, result.data(), bytes);
      }
      case Kind::reduce_scatter: {
        const std::vector<T> result = reduced<T>(ranks, 0, any.count * ranks.size());
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          move(ranks[i]->to, result.data() + i * any.count, bytes);
        }
        return;
      }
      case Kind::broadcast:
        for (const Issued* rank : ranks) {
          move(rank->to, ranks[static_cast<std::size_t>(any.root)]->from, bytes);
        }
        return;
      case Kind::all_gather: {
        std::vector<char> all(bytes * ranks.size());
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          move(all.data() + i * bytes, ranks[i]->from, bytes);
        }
        for (const Issued* rank : ranks) move(rank->to, all.data(), all.size());
        return;
      }
      case Kind::send:
      case Kind::recv:
        return;
    }
  });
}

}  // namespace c10dd::stand_in
