// SPDX-License-Identifier: Apache-2.0
// Default implementations of the functions of Backend.
#include "collectives/backend.h"

#include <cstring>
#include <new>

namespace c10dd::collectives {

Result<std::shared_ptr<void>> Backend::allocate(std::size_t bytes, Device device) {
  if (device.kind != Device::Kind::cpu) {
    return failure(Code::unsupported, "allocate: this backend has only cpu memory");
  }
  constexpr std::align_val_t kAlignment{64};  // for vector instructions
  std::shared_ptr<void> memory(::operator new(bytes, kAlignment),
                               [](void* data) { ::operator delete(data, kAlignment); });
  std::memset(memory.get(), 0, bytes);
  return memory;
}

}  // namespace c10dd::collectives
