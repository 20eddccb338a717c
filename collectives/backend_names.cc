// SPDX-License-Identifier: Apache-2.0
#include "collectives/backend_names.h"

#include <algorithm>

#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

Failure refused(std::string_view names, const std::string& why) {
  return failure(Code::invalid_argument,
                 "invalid backend \"{}\": {}; use one name such as gloo, or a list such as "
                 "cpu:gloo,cuda:nccl",
                 names, why);
}

}  // namespace

bool is_composite(std::string_view names) { return names.find(':') != std::string_view::npos; }

Result<std::vector<BackendName>> split_names(std::string_view names) {
  std::vector<BackendName> parts;
  std::string_view rest = names;
  while (true) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t colon = std::min(one.find(':'), one.size());
    const std::string_view kind = one.substr(0, colon);
    if (kind != "cpu" && kind != "cuda") {
      return refused(names, format("unknown device \"{}\" (must be cpu or cuda)", kind));
    }
    BackendName part{kind == "cpu" ? Device::Kind::cpu : Device::Kind::cuda,
                     std::string(one.substr(std::min(colon + 1, one.size())))};
    if (part.name.empty() || is_composite(part.name)) {
      return refused(names, format("\"{}\" does not name a backend", one));
    }
    if (std::ranges::count(parts, part.kind, &BackendName::kind) > 0) {
      return refused(names, format("device {} is listed twice", kind));
    }
    parts.push_back(std::move(part));
    if (end == rest.size()) return parts;
    rest.remove_prefix(end + 1);
  }
}

std::string name_for(std::string_view names, Device::Kind kind) {
  if (!is_composite(names)) return std::string(names);
  const auto parts = split_names(names);
  if (!parts) return std::string(names);
  const auto found = std::ranges::find(*parts, kind, &BackendName::kind);
  return found == parts->end() ? parts->front().name : found->name;
}

std::size_t exchanges_of(std::string_view names) {
  if (!is_composite(names)) return 1;
  const auto parts = split_names(names);
  return parts ? 1 + parts->size() : 1;
}

}  // namespace c10dd::collectives
