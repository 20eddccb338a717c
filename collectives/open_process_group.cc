// SPDX-License-Identifier: Apache-2.0
// Opens the backend of a group. loopback, and one backend for each kind of device, are built in;
// all others are modules.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "collectives/backend.h"
#include "collectives/backend_names.h"
#include "collectives/staged_backend.h"

namespace c10dd::collectives {

GroupOptions with_backend(GroupOptions options) {
  if (options.backend != "auto") return options;
  const char* const chosen = std::getenv("C10DD_BACKEND");
  options.backend = chosen == nullptr || *chosen == '\0' ? "gloo" : chosen;
  return options;
}

Result<const BackendModule*> load_backend_module(const std::string& name) {
  static constexpr client::ModuleKind kind = {.what = "backend",
                                              .file_prefix = "libc10dd_",
                                              .symbol = "c10dd_backend_module",
                                              .path_variable = "C10DD_BACKEND_PATH",
                                              .remedy = "",
                                              .abi = kBackendAbi,
                                              .setup_bytes = sizeof(BackendSetup)};
  const Result<const client::ModuleHead*> head = client::load_module(kind, name);
  if (!head) return head.error();
  return reinterpret_cast<const BackendModule*>(*head);  // whose first member the head is
}

Result<std::unique_ptr<Backend>> open_backend(const BackendSetup& setup) {
  const std::string& name = setup.options.backend;
  if (is_composite(name)) return open_composite(setup);
  if (name == "loopback") return open_loopback(setup);
  // The name becomes part of a file name, so it must not contain a path.
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain)) {
    return failure(Code::invalid_argument,
                   "invalid backend name \"" + name +
                       "\": use lower-case letters and digits only, such as gloo or mpi");
  }
  auto module = load_backend_module(name);
  if (!module) return module.error();
  auto backend = (*module)->open(setup);
  if (!backend || (*module)->device_copies != nullptr) return backend;
  return with_staging(std::move(*backend));
}

}  // namespace c10dd::collectives
