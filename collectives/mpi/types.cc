// SPDX-License-Identifier: Apache-2.0
#include "collectives/mpi/types.h"

#include "collectives/mpi/calls.h"
#include "collectives/reduce.h"

namespace c10dd::collectives::mpi {
namespace {

MPI_Datatype make_half() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  require(MPI_Type_contiguous(2, MPI_BYTE, &type), "MPI_Type_contiguous");
  require(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

/// The function of an operator of our own: combines `in` and `inout` into `inout`.
template <DType dtype, ReduceOp::Kind kind>
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  static const ReduceFunction function = reduce_function(dtype, kind);
  function(inout, in, inout, static_cast<std::size_t>(*count));
}

template <DType dtype, ReduceOp::Kind kind>
MPI_Op made_op() {
  static const MPI_Op made = [] {
    MPI_Op op = MPI_OP_NULL;
    require(MPI_Op_create(&combine<dtype, kind>, 1, &op), "MPI_Op_create");
    return op;
  }();
  return made;
}

template <DType dtype>
MPI_Op half_op(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::product:
      return made_op<dtype, ReduceOp::product>();
    case ReduceOp::min:
      return made_op<dtype, ReduceOp::min>();
    case ReduceOp::max:
      return made_op<dtype, ReduceOp::max>();
    default:
      return made_op<dtype, ReduceOp::sum>();
  }
}

/// For booleans, whose bytes are 0 or 1.
MPI_Op boolean_op(ReduceOp::Kind kind) {
  switch (kind) {
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
      return MPI_BAND;
    case ReduceOp::bxor:
      return MPI_BXOR;
    default:
      return MPI_BOR;
  }
}

}  // namespace

MPI_Datatype type_of(DType dtype) {
  static const MPI_Datatype half = make_half();
  switch (dtype) {
    case DType::int8:
      return MPI_INT8_T;
    case DType::int16:
      return MPI_INT16_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::uint8:
    case DType::boolean:
      return MPI_UINT8_T;
    case DType::float16:
    case DType::bfloat16:
      return half;
    case DType::float32:
      return MPI_FLOAT;
    case DType::float64:
      break;
  }
  return MPI_DOUBLE;
}

MPI_Op op_of(ReduceOp::Kind kind, DType dtype) {
  if (dtype == DType::float16) return half_op<DType::float16>(kind);
  if (dtype == DType::bfloat16) return half_op<DType::bfloat16>(kind);
  if (dtype == DType::boolean) return boolean_op(kind);
  if (kind == ReduceOp::sum || kind == ReduceOp::avg) {
    // Open MPI 4.1 adds integers of 8 and 16 bits with saturation where the processor has AVX.
    if (dtype == DType::int8) return made_op<DType::int8, ReduceOp::sum>();
    if (dtype == DType::uint8) return made_op<DType::uint8, ReduceOp::sum>();
    if (dtype == DType::int16) return made_op<DType::int16, ReduceOp::sum>();
  }
  // MPI_MIN and MPI_MAX may lose a NaN.
  if (dtype == DType::float32 && kind == ReduceOp::min)
    return made_op<DType::float32, ReduceOp::min>();
  if (dtype == DType::float32 && kind == ReduceOp::max)
    return made_op<DType::float32, ReduceOp::max>();
  if (dtype == DType::float64 && kind == ReduceOp::min)
    return made_op<DType::float64, ReduceOp::min>();
  if (dtype == DType::float64 && kind == ReduceOp::max)
    return made_op<DType::float64, ReduceOp::max>();
  switch (kind) {
    case ReduceOp::product:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::band:
      return MPI_BAND;
    case ReduceOp::bor:
      return MPI_BOR;
    case ReduceOp::bxor:
      return MPI_BXOR;
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      break;
  }
  return MPI_SUM;
}

}  // namespace c10dd::collectives::mpi
