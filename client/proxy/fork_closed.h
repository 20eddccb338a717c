// SPDX-License-Identifier: Apache-2.0
// Descriptors that a forked child closes: the child has copies of them, which would keep
// connections open after the end of the parent. Programs that the child executes do not get them,
// as they are opened with FD_CLOEXEC.
#pragma once

#include <cstddef>

namespace c10dd::proxy {

/// Registers a descriptor for its lifetime. Thread-safe. If more than kMost descriptors are
/// registered in the process, further ones stay open in children.
class ForkClosed {
 public:
  static constexpr std::size_t kMost = 16'384;

  ForkClosed() = default;
  explicit ForkClosed(int descriptor);
  ForkClosed(ForkClosed&& other) noexcept;
  ForkClosed& operator=(ForkClosed&& other) noexcept;
  ~ForkClosed();

 private:
  std::size_t place_ = kMost;
};

}  // namespace c10dd::proxy
