// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/torch/given_up_waits.h"

#include <algorithm>

#include "daemon/core/torch/rank_keys.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

/// Returns how many keys the request asked for.
std::size_t asked(const Request& request) {
  if (const auto* wait = std::get_if<Wait>(&request)) return wait->keys.size();
  return 1;
}

/// Tells what the request has waited for: the keys that have not been set, or a number.
void describe(const Pending::Waiter& waiter, WaitGivenUp& out) {
  if (const auto* wait = std::get_if<WaitCounter>(&waiter.request)) {
    out.detail = format("key {} has not reached {}",
                        printable(wait->key.view(), limits::kNameBytes), wait->at_least);
    return;
  }
  std::vector<Bytes> keys;
  std::vector<Rank> ranks;
  for (const Blob& token : waiter.tokens) {
    keys.emplace_back(key_of_token(token));
    if (const auto rank = rank_of_key(keys.back())) ranks.push_back(*rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  out.detail = keys_not_found(keys, asked(waiter.request)).detail;
  out.ranks = fold(ranks);
}

}  // namespace

std::optional<WaitGivenUp> GivenUpWaits::note(TimePoint now, const Pending::Waiter& waiter,
                                              const Session& session, std::string_view cause,
                                              std::size_t others) {
  const Duration blocked = now - waiter.started;
  if (!session.c10d || session.observes || blocked <= kLong) return std::nullopt;
  const Bytes first = waiter.tokens.front();
  std::size_t folded = 0;
  if (const auto known = reported_.find(first); known != reported_.end()) {
    if (now - known->second.at < kFolded) {
      ++known->second.folded;
      return std::nullopt;
    }
    folded = known->second.folded;
  }
  std::erase_if(reported_, [&](const auto& entry) { return now - entry.second.at >= kFolded; });
  if (reported_.size() < kKeys) reported_[first] = {.at = now};
  WaitGivenUp event{.cause = cause,
                    .peer = session.host,
                    .pid = session.pid,
                    .blocked = blocked,
                    .others = others,
                    .folded = folded};
  describe(waiter, event);
  return event;
}

}  // namespace c10dd::core
