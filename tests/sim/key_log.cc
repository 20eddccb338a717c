// SPDX-License-Identifier: Apache-2.0
// Converts rows to changes and versions; a removal by prefix becomes one change per key.
#include "tests/sim/key_log.h"

#include <algorithm>

#include "daemon/core/keys/key_row.h"
#include "protocol/fields.h"

namespace c10dd::sim {
namespace {

std::vector<std::pair<std::uint64_t, Revision>> running_maximum(
    std::vector<std::pair<std::uint64_t, Revision>> moments) {
  std::ranges::sort(moments);
  Revision most = 0;
  for (auto& [order, revision] : moments) revision = most = std::max(most, revision);
  return moments;
}

Revision before(const std::vector<std::pair<std::uint64_t, Revision>>& moments,
                std::uint64_t order) {
  const auto it = std::ranges::lower_bound(moments, std::pair(order, Revision{0}));
  return it == moments.begin() ? 0 : std::prev(it)->second;
}

}  // namespace

Revision seen_in(const Op& op) {
  if (!op.good()) return 0;
  if (const auto* value = std::get_if<Value>(&**op.reply)) return value->revision;
  if (const auto* written = std::get_if<Written>(&**op.reply)) return written->revision;
  if (const auto* page = std::get_if<KeyPage>(&**op.reply)) return page->revision;
  if (const auto* changes = std::get_if<Changes>(&**op.reply)) return changes->next - 1;
  if (const auto* values = std::get_if<Values>(&**op.reply)) {
    return values->revisions.empty() ? 0 : std::ranges::max(values->revisions);
  }
  return 0;
}

KeyLog::KeyLog(const std::vector<Step>& log) {
  const auto add = [&](std::size_t step, const Bytes& key, std::optional<Bytes> value) {
    const Revision revision = log[step].revision;
    changes_.push_back({revision, !value, key, value.value_or("")});
    std::vector<KeyVersion>& versions = keys_[key];
    if (versions.empty() || versions.back().revision != revision) versions.emplace_back();
    versions.back() = {revision, std::move(value), step};
  };
  for (std::size_t step = 0; step < log.size(); ++step) {
    for (const Row& row : log[step].rows) {
      if (row.key.empty() || row.key[0] != 'k') continue;
      const Bytes key = row.key.substr(1);
      if (row.kind == Row::Kind::put) {
        const Result<core::KeyRow> value = wire::decode<core::KeyRow>(row.value);
        add(step, key, value ? value->value.str() : Bytes("undecodable"));
      } else if (row.kind == Row::Kind::erase) {
        add(step, key, std::nullopt);
      } else {
        for (const Bytes& each : list(key, log[step].revision)) add(step, each, std::nullopt);
      }
    }
  }
}

const KeyVersion* KeyLog::at(const Bytes& key, Revision revision) const {
  const auto it = keys_.find(key);
  if (it == keys_.end()) return nullptr;
  const auto after = std::ranges::upper_bound(it->second, revision, {}, &KeyVersion::revision);
  if (after == it->second.begin()) return nullptr;
  return std::prev(after)->value ? &*std::prev(after) : nullptr;
}

std::vector<Bytes> KeyLog::list(std::string_view prefix, Revision revision) const {
  std::vector<Bytes> found;
  for (auto it = keys_.lower_bound(Bytes(prefix));
       it != keys_.end() && it->first.starts_with(prefix); ++it) {
    if (at(it->first, revision) != nullptr) found.push_back(it->first);
  }
  return found;
}

Windows::Windows(const Records& records, const std::string& job) {
  std::map<std::pair<SessionId, std::uint64_t>, std::uint64_t> answered_at;
  for (const Op& op : records.ops) {
    if (op.job != job || !op.good()) continue;
    if (op.sequence != 0) answered_at[{op.session, op.sequence}] = op.answered;
    if (const Revision seen = seen_in(op)) answered_.emplace_back(op.answered, seen);
  }
  for (const Step& step : records.log(job)) {
    durable_.emplace_back(step.durable, step.revision);
    const auto it = answered_at.find({step.session, step.sequence});
    if (step.sequence != 0 && step.is_effect() && it != answered_at.end()) {
      answered_.emplace_back(it->second, step.revision);
    }
  }
  answered_ = running_maximum(std::move(answered_));
  durable_ = running_maximum(std::move(durable_));
}

Revision Windows::least(const Op& op) const { return before(answered_, op.invoked); }
Revision Windows::most(const Op& op) const { return before(durable_, op.answered); }

std::vector<Revision> Windows::revisions(const Op& op) const {
  const Revision from = least(op);
  const Revision to = most(op);
  std::vector<Revision> all{from};
  auto it =
      std::ranges::upper_bound(durable_, from, {}, &std::pair<std::uint64_t, Revision>::second);
  for (; it != durable_.end() && it->second <= to; ++it) all.push_back(it->second);
  return all;
}

}  // namespace c10dd::sim
