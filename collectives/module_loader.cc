// SPDX-License-Identifier: Apache-2.0
// Loads the shared object of a backend. The object's symbols are local, so that they cannot collide
// with another copy of the vendor library in the trainer. The object is never unloaded, because
// vendor libraries keep threads and static objects.
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
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

namespace fs = std::filesystem;

/// Returns the run-time search path of the program or library that contains this function. The path
/// consists of the -rpath, LD_LIBRARY_PATH and the system's defaults. The installed CMake targets
/// set the -rpath to the folder of the modules. dlopen() searches this path by itself, unless a
/// sanitizer has replaced dlopen().
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
  // The first call of dlinfo() returns the size of the list, and the second call returns the list.
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

/// Returns the folders to search, in this order: C10DD_BACKEND_PATH, ../lib relative to the folder
/// of the program, the folder of this library, linked_folders(). After these, load() searches the
/// folders of ldconfig.
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

/// Returns the description of a module. Fails if `file` is not a module or is from another build.
Result<const BackendModule*> check(void* handle, const std::string& name, const std::string& file) {
  using Entry = const BackendModule* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kBackendModuleSymbol));
  if (entry == nullptr) {
    return failure(Code::unsupported,
                   "backend \"{}\": {} is not a backend module: it does not export {}", name, file,
                   kBackendModuleSymbol);
  }
  const BackendModule* module = entry();
  if (module->abi != kBackendAbi || module->setup_bytes != sizeof(BackendSetup) ||
      std::strcmp(module->compiler, __VERSION__) != 0) {
    return failure(Code::unsupported,
                   "backend \"{}\": {} has interface {} and compiler {}, but this library has {} "
                   "and {}; install module and library from one build",
                   name, file, module->abi, module->compiler, kBackendAbi, __VERSION__);
  }
  return module;
}

/// Finds and loads the module.
Result<const BackendModule*> load(const std::string& name) {
  const std::string base = "libc10dd_" + name + ".so";
  std::string searched;
  for (const fs::path& folder : search_folders()) {
    const std::string file = (folder / base).string();
    std::error_code error;
    if (!fs::exists(file, error)) {
      searched += folder.string() + ", ";
      continue;
    }
    // Uses the first file that exists. If that file cannot be loaded, load() fails and does not
    // search further.
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return failure(Code::unsupported, "backend \"{}\" cannot be loaded: {}", name, dlerror());
    }
    return check(handle, name, file);
  }
  if (void* handle = dlopen(base.c_str(), RTLD_NOW | RTLD_LOCAL)) return check(handle, name, base);
  return failure(Code::invalid_argument,
                 "backend \"{}\" not found: no {} in {}or the folders of ldconfig; set "
                 "C10DD_BACKEND_PATH to its folder",
                 name, base, searched);
}

}  // namespace

Result<const BackendModule*> load_backend_module(const std::string& name) {
  // A failure is not remembered: the next call searches for the module again.
  static std::mutex mutex;
  static std::map<std::string, const BackendModule*> loaded;
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(name); known != loaded.end()) return known->second;
  auto module = load(name);
  if (module) loaded.emplace(name, *module);
  return module;
}

}  // namespace c10dd::collectives
