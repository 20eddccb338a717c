// SPDX-License-Identifier: Apache-2.0
// Loads modules at run time. A module is a shared library for one vendor's library or server, with
// one exported function that returns its description.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/error.h"

namespace c10dd::client {

/// First fields of every module's description.
struct ModuleHead {
  std::uint32_t abi = 0;          ///< version of the interface between this module and its loader
  std::uint32_t setup_bytes = 0;  ///< size of what the module's open() takes
  const char* compiler = __VERSION__;
};

/// What the modules of one kind have in common.
struct ModuleKind {
  const char* what;           ///< for texts: "backend"
  const char* file_prefix;    ///< the file is <file_prefix><name>.so
  const char* symbol;         ///< the exported function
  const char* path_variable;  ///< environment variable with folders to search first
  const char* remedy;         ///< ends the text if a module is missing; empty, or begins with "; "
  std::uint32_t abi;
  std::uint32_t setup_bytes;
};

/// Finds, loads and checks a module. `name` must not contain a path. A loaded module is never
/// unloaded. Thread-safe.
Result<const ModuleHead*> load_module(const ModuleKind& kind, const std::string& name);

}  // namespace c10dd::client
