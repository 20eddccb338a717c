// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/protocols.h"

#include <algorithm>
#include <utility>

namespace c10dd::daemon {

Protocols::Protocols(List list) : list_(std::move(list)) {
  for (std::size_t i = 0; i < list_.size(); ++i) {
    const WireProtocol& entry = list_[i];
    C10DD_ASSERT(entry.protocol == kProtocols[i].protocol);
    C10DD_ASSERT(entry.recognise && entry.serve && entry.refusal);
  }
}

Protocols::Found Protocols::recognise(std::string_view head) const {
  Found found;
  if (head.empty()) return {Match::maybe, nullptr};
  for (const WireProtocol& entry : list_) {
    const Match match = entry.recognise(head);
    if (match == Match::yes) return {match, &entry};
    if (match == Match::maybe) found.match = match;
  }
  return found;
}

bool Protocols::keep_silent(const std::shared_ptr<Stream>& stream,
                            const ProtocolSet& enabled) const {
  return std::any_of(list_.begin(), list_.end(), [&](const WireProtocol& entry) {
    return enabled.has(entry.protocol) && entry.keep_silent && entry.keep_silent(stream);
  });
}

const WireProtocol* Protocols::for_strangers(const ProtocolSet& enabled) const {
  for (const WireProtocol& entry : list_) {
    if (entry.refuses_unknown && enabled == ProtocolSet{entry.protocol}) return &entry;
  }
  return nullptr;
}

}  // namespace c10dd::daemon
