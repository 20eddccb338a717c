// SPDX-License-Identifier: Apache-2.0
// The symbols of a module are local, so that they cannot collide with another copy of the vendor
// library in the trainer. A module is never unloaded, because vendor libraries keep threads and
// static objects.
#include "client/internal/module_loader.h"

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

#include "protocol/format.h"

namespace c10dd::client {
namespace {

namespace fs = std::filesystem;

/// Returns the run-time search path of the program or library that contains this function. The path
/// consists of the -rpath, LD_LIBRARY_PATH and the system's defaults. The installed CMake targets
/// set the -rpath to the folder of the modules. dlopen() searches this path by itself, unless a
/// sanitizer has replaced dlopen().
std::vector<fs::path> linked_folders() {
  Dl_info info = {};
  void* extra = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&load_module), &info, &extra, RTLD_DL_LINKMAP) == 0) {
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

/// Returns the folders to search, in this order: those of ModuleKind::path_variable, ../lib
/// relative to the folder of the program, the folder of this library, linked_folders(). After
/// these, load() searches the folders of ldconfig.
std::vector<fs::path> search_folders(const ModuleKind& kind) {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv(kind.path_variable)) {
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
  if (dladdr(reinterpret_cast<const void*>(&load_module), &own) != 0 && own.dli_fname != nullptr) {
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
Result<const ModuleHead*> check(void* handle, const ModuleKind& kind, const std::string& name,
                                const std::string& file) {
  using Entry = const ModuleHead* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kind.symbol));
  if (entry == nullptr) {
    return failure(Code::unsupported, "{} \"{}\": {} is not a {} module: it does not export {}",
                   kind.what, name, file, kind.what, kind.symbol);
  }
  const ModuleHead* module = entry();
  if (module->abi != kind.abi || module->setup_bytes != kind.setup_bytes ||
      std::strcmp(module->compiler, __VERSION__) != 0) {
    return failure(
        Code::unsupported,
        "{} \"{}\": {} has interface {} and compiler {}, but this library has {} and {}; "
        "install module and library from one build",
        kind.what, name, file, module->abi, module->compiler, kind.abi, __VERSION__);
  }
  return module;
}

/// Finds and loads the module.
Result<const ModuleHead*> load(const ModuleKind& kind, const std::string& name) {
  const std::string base = kind.file_prefix + name + ".so";
  std::string searched;
  for (const fs::path& folder : search_folders(kind)) {
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
      return failure(Code::unsupported, "{} \"{}\" cannot be loaded: {}{}", kind.what, name,
                     dlerror(), kind.remedy);
    }
    return check(handle, kind, name, file);
  }
  if (void* handle = dlopen(base.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    return check(handle, kind, name, base);
  }
  return failure(
      Code::invalid_argument,
      "{} \"{}\" not found: no file {} in {}or the folders of ldconfig; set {} to its folder{}",
      kind.what, name, base, searched, kind.path_variable, kind.remedy);
}

}  // namespace

Result<const ModuleHead*> load_module(const ModuleKind& kind, const std::string& name) {
  // A failure is not remembered: the next call searches for the module again.
  static std::mutex mutex;
  static std::map<std::string, const ModuleHead*> loaded;
  const std::string file = kind.file_prefix + name;
  const std::lock_guard lock(mutex);
  if (const auto known = loaded.find(file); known != loaded.end()) return known->second;
  auto module = load(kind, name);
  if (module) loaded.emplace(file, *module);
  return module;
}

}  // namespace c10dd::client
