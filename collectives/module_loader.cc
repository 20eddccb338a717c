// SPDX-License-Identifier: Apache-2.0
// Opens the shared object of a backend, with local symbols, so that its vendor library stays
// invisible to the trainer. A module stays loaded: vendor libraries keep threads and statics.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "collectives/backend.h"

namespace c10dd::collectives {
namespace {

namespace fs = std::filesystem;

/// The run-time search path of the program or library that this is linked into: -rpath, by which
/// the installed CMake targets name the folder of the modules, LD_LIBRARY_PATH, the system's
/// defaults. dlopen() looks there too, but not when a sanitizer has wrapped it.
std::vector<fs::path> linked_folders() {
  Dl_info info = {};
  void* extra = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&load_backend_module), &info, &extra,
              RTLD_DL_LINKMAP) == 0) {
    return {};
  }
  void* own = dlopen(static_cast<const link_map*>(extra)->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (own == nullptr) return {};
  std::vector<fs::path> folders;
  Dl_serinfo size = {};
  if (dlinfo(own, RTLD_DI_SERINFOSIZE, &size) == 0) {
    const auto memory = std::make_unique<std::byte[]>(size.dls_size);
    auto* path = new (memory.get()) Dl_serinfo(size);
    if (dlinfo(own, RTLD_DI_SERINFO, path) == 0) {
      for (unsigned i = 0; i < path->dls_cnt; ++i)
        folders.emplace_back(path->dls_serpath[i].dls_name);
    }
  }
  dlclose(own);
  return folders;
}

/// Folders in the order in which they are tried; what ldconfig knows comes after them.
std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("C10DD_BACKEND_PATH")) {
    const std::string all = path;
    for (std::size_t begin = 0; begin <= all.size();) {
      const std::size_t end = std::min(all.find(':', begin), all.size());
      if (end > begin) folders.emplace_back(all.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back((program.parent_path() / ".." / "lib").lexically_normal());
  Dl_info own = {};
  if (dladdr(reinterpret_cast<const void*>(&load_backend_module), &own) != 0 &&
      own.dli_fname != nullptr) {
    folders.push_back(fs::absolute(own.dli_fname, error).parent_path());
  }
  for (fs::path& folder : linked_folders()) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(std::move(folder));
    }
  }
  return folders;
}

Result<const BackendModule*> check(void* handle, const std::string& name, const std::string& file) {
  using Entry = const BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kBackendModuleSymbol));
  if (entry == nullptr) {
    return failure(Code::unsupported, "backend \"" + name + "\": " + file + " exports no " +
                                          kBackendModuleSymbol + ", it is no backend module");
  }
  const BackendModule* module = entry();
  if (module->abi != kBackendAbi || module->setup_bytes != sizeof(BackendSetup) ||
      std::strcmp(module->compiler, __VERSION__) != 0) {
    return failure(Code::unsupported, "backend \"" + name + "\": " + file + " has interface " +
                                          std::to_string(module->abi) + " by compiler " +
                                          module->compiler + ", expected " +
                                          std::to_string(kBackendAbi) + " by " + __VERSION__ +
                                          "; install module and library from one build");
  }
  return module;
}

Result<const BackendModule*> load(const std::string& name) {
  const std::string base = "libc10dd_" + name + ".so";
  std::string looked;
  for (const fs::path& folder : search_folders()) {
    const std::string file = (folder / base).string();
    std::error_code error;
    if (!fs::exists(file, error)) {
      looked += folder.string() + ", ";
      continue;
    }
    // The first file found decides: a broken one is an error, not a reason to look further.
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return failure(Code::unsupported, "backend \"" + name + "\" cannot be loaded: " + dlerror());
    }
    return check(handle, name, file);
  }
  if (void* handle = dlopen(base.c_str(), RTLD_NOW | RTLD_LOCAL)) return check(handle, name, base);
  return failure(Code::invalid_argument,
                 "backend \"" + name + "\" not found: no " + base + " in " + looked +
                     "nor where ldconfig says; set C10DD_BACKEND_PATH to its folder");
}

}  // namespace

Result<const BackendModule*> load_backend_module(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, const BackendModule*> loaded;
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(name); known != loaded.end()) return known->second;
  auto module = load(name);
  if (module) loaded.emplace(name, *module);
  return module;
}

}  // namespace c10dd::collectives
