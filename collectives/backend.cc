// SPDX-License-Identifier: Apache-2.0
// Default implementations of the functions of Backend, and the exchanges that open one.
#include "collectives/backend.h"

#include <cstring>
#include <new>
#include <utility>

#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

/// Returns exchange(bootstrap, timeout), which has `expected` parts.
template <class F>
Result<std::vector<std::string>> run(const BackendSetup& setup, std::size_t expected, F exchange) {
  try {
    std::vector<std::string> reply = exchange(*setup.bootstrap, setup.options.open_timeout);
    if (reply.size() == expected) return reply;
    return failure(Code::size_mismatch,
                   "bootstrap of process group \"{}\" returned {} parts for {} ranks",
                   setup.world.name, reply.size(), setup.world.size);
  } catch (const std::exception& error) {
    setup.thrown = std::current_exception();
    return failure(Code::unavailable, error.what());
  }
}

}  // namespace

Result<std::vector<std::string>> transpose(const BackendSetup& setup,
                                           std::vector<std::string> parts) {
  return run(setup, setup.world.size, [&](Bootstrap& bootstrap, Duration timeout) {
    return bootstrap.transpose(std::move(parts), timeout);
  });
}

Result<std::vector<std::string>> all(const BackendSetup& setup, std::string part) {
  return run(setup, setup.world.size, [&](Bootstrap& bootstrap, Duration timeout) {
    return bootstrap.all(setup.world, std::move(part), timeout);
  });
}

Result<std::string> from_root(const BackendSetup& setup, std::string part) {
  auto reply = run(setup, 1, [&](Bootstrap& bootstrap, Duration timeout) {
    return std::vector{bootstrap.from_root(setup.world, std::move(part), timeout)};
  });
  if (!reply) return reply.error();
  return std::move(reply->front());
}

Result<std::unique_ptr<Backend>> Backend::split(const BackendSetup*, int, int,
                                                std::chrono::steady_clock::time_point) {
  return failure(Code::unsupported, "split: this backend cannot split its groups");
}

Result<std::shared_ptr<void>> Backend::allocate(std::size_t bytes, Device device) {
  if (device.kind != Device::Kind::cpu) {
    return failure(Code::unsupported, "allocate: this backend can allocate only cpu memory");
  }
  constexpr std::align_val_t kAlignment{64};  // for vector instructions
  std::shared_ptr<void> memory(::operator new(bytes, kAlignment),
                               [](void* data) { ::operator delete(data, kAlignment); });
  std::memset(memory.get(), 0, bytes);
  return memory;
}

}  // namespace c10dd::collectives
