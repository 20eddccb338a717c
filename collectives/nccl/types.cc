// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/types.h"

namespace c10dd::collectives::nccl {

std::optional<Type> type_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return Type::int8;
    case DType::int16:
      return std::nullopt;
    case DType::int32:
      return Type::int32;
    case DType::int64:
      return Type::int64;
    case DType::uint8:
    case DType::boolean:
      return Type::uint8;
    case DType::float16:
      return Type::float16;
    case DType::bfloat16:
      return Type::bfloat16;
    case DType::float32:
      return Type::float32;
    case DType::float64:
      break;
  }
  return Type::float64;
}

std::optional<Op> op_of(ReduceOp::Kind kind, DType dtype) {
  if (!type_of(dtype) || !combines(kind, dtype)) return std::nullopt;
  const bool boolean = dtype == DType::boolean;
  switch (kind) {
    case ReduceOp::sum:
      return boolean ? Op::max : Op::sum;  // the sum of 256 true bytes would be 0
    case ReduceOp::product:
      return boolean ? Op::min : Op::product;
    case ReduceOp::min:
      return Op::min;
    case ReduceOp::max:
      return Op::max;
    case ReduceOp::avg:
      return Op::avg;
    case ReduceOp::premul_sum:
      return Op::sum;
    case ReduceOp::band:
      if (boolean) return Op::min;
      break;
    case ReduceOp::bor:
      if (boolean) return Op::max;
      break;
    case ReduceOp::bxor:
      break;
  }
  return std::nullopt;
}

}  // namespace c10dd::collectives::nccl
