// SPDX-License-Identifier: Apache-2.0
// Descriptors that child processes must not have: they would keep connections open after the end of
// the parent. A forked child closes them, and a program that it executes does not get them.
#pragma once

#include <cstddef>

namespace c10dd::client {

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

  /// Returns whether this process is a child that has closed the descriptor.
  bool closed() const;

 private:
  std::size_t place_ = kMost;
};

}  // namespace c10dd::client
