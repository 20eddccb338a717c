// SPDX-License-Identifier: Apache-2.0
#include "collectives/wide_average.h"

#include <algorithm>
#include <type_traits>

namespace c10dd::collectives {
namespace {

/// Calls `f` with the elements of an integer tensor.
template <class F>
void with_elements(const Tensor& tensor, F f) {
  with_dtype(tensor.dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T>) f(static_cast<T*>(tensor.data));
  });
}

}  // namespace

bool WideAverage::suits(const Operation& operation) {
  if (!info_of(operation.collective).reduces || operation.reduce != ReduceOp::avg) return false;
  const DType dtype = operation.common().dtype;
  return with_dtype(dtype, []<class T>(std::type_identity<T>) {
    return std::is_integral_v<T> && sizeof(T) < sizeof(std::int64_t);
  });
}

WideAverage::WideAverage(const Operation& narrow) : wide_(narrow), result_(narrow.output) {
  wide_.output = widened(narrow.output);
  if (narrow.input.data != nullptr) wide_.input = widened(narrow.input);
  for (Tensor& one : wide_.inputs) one = widened(one);
}

Tensor WideAverage::widened(const Tensor& narrow) {
  std::vector<std::int64_t>& wide = memory_.emplace_back(narrow.count);
  with_elements(narrow, [&](const auto* from) { std::copy_n(from, narrow.count, wide.begin()); });
  Tensor tensor = narrow;
  tensor.data = wide.data();
  tensor.dtype = DType::int64;
  return tensor;
}

void WideAverage::store() const {
  const auto* const from = static_cast<const std::int64_t*>(wide_.output.data);
  with_elements(result_, [&]<class T>(T* to) {
    std::transform(from, from + result_.count, to, [](std::int64_t x) { return T(x); });
  });
}

}  // namespace c10dd::collectives
