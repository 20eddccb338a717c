// SPDX-License-Identifier: Apache-2.0
// Checks the whole report before adding any part of it, so that an invalid report adds nothing.
#include "daemon/core/reports/collective_ledger.h"

#include <numeric>
#include <optional>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/metric_catalog.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kLabelBytes = 63;
// A report with more calls in flight is invalid: far above what a process can hold, and low enough
// that the sum over all sessions does not overflow.
constexpr std::uint64_t kInFlightMax = std::uint64_t{1} << 40;

using Counts = std::vector<std::uint64_t>;

/// Returns whether the counts add up to at most `sum`.
bool fits(const Counts& counts, std::uint64_t sum) {
  for (const std::uint64_t n : counts) {
    if (n > sum) return false;
    sum -= n;
  }
  return true;
}

std::uint64_t total(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

bool adds_up(const CollectiveTotals& now) {
  const bool coarse = now.buckets.size() == metric::kCoarseBuckets &&
                      fits(now.buckets, now.count) && total(now.buckets) == now.count;
  const bool fine =
      now.fine_buckets.empty() || (now.fine_buckets.size() == metric::kFineBounds.size() &&
                                   coarse && fits(now.fine_buckets, now.buckets[0]));
  const bool queue = now.queue_buckets.empty() ||
                     (now.queue_buckets.size() == metric::kCollectiveBuckets &&
                      fits(now.queue_buckets, now.count) && total(now.queue_buckets) == now.count);
  return coarse && fine && queue && now.in_flight <= kInFlightMax;
}

/// Subtracts `before` from `now`. Returns false if a count has become smaller. `before` is empty if
/// nothing was counted before.
bool subtract(Counts& now, const Counts& before) {
  if (now.size() < before.size()) return false;
  bool grows = true;
  for (std::size_t i = 0; i < before.size(); ++i) {
    grows = grows && now[i] >= before[i];
    now[i] -= before[i];
  }
  return grows;
}

/// Returns what `now` adds to `before`, or nullopt if a total has become smaller.
std::optional<CollectiveTotals> difference(const CollectiveTotals& before,
                                           const CollectiveTotals& now) {
  CollectiveTotals d = now;
  bool grows = true;
  for (std::uint64_t CollectiveTotals::*field :
       {&CollectiveTotals::count, &CollectiveTotals::failures, &CollectiveTotals::payload_bytes,
        &CollectiveTotals::bus_bytes, &CollectiveTotals::duration_ns,
        &CollectiveTotals::queue_ns}) {
    grows = grows && now.*field >= before.*field;
    d.*field -= before.*field;
  }
  for (Counts CollectiveTotals::*field :
       {&CollectiveTotals::buckets, &CollectiveTotals::fine_buckets,
        &CollectiveTotals::queue_buckets}) {
    grows = subtract(d.*field, before.*field) && grows;
  }
  if (!grows) return std::nullopt;
  return d;
}

/// The memory of the totals of one series with full buckets and long names.
constexpr std::size_t kSeriesBytes = 2'560;

/// Returns the printable form of `text`, and adds it to `known`. If `known` already has `limit`
/// entries and does not contain the printable form, returns "other" instead.
std::string label(std::set<std::string>& known, const std::string& text, std::size_t limit) {
  std::string shown = printable(text, kLabelBytes);
  if (known.contains(shown)) return shown;
  if (known.size() == limit) return "other";
  known.insert(shown);
  return shown;
}

}  // namespace

std::size_t CollectiveLedger::in_flight_of(const std::map<Series, CollectiveTotals>& totals) {
  std::size_t sum = 0;
  for (const auto& [series, one] : totals) sum += one.in_flight;
  return sum;
}

void CollectiveLedger::disconnect(const SessionId& session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  in_flight_ -= in_flight_of(found->second.totals);
  for (auto& [series, totals] : found->second.totals) totals.in_flight = 0;
}

std::size_t CollectiveLedger::charged() const {
  std::size_t bytes = 0;
  for (const auto& [session, reported] : sessions_) bytes += reported.charge.bytes();
  return bytes;
}

void CollectiveLedger::forget(const SessionId& session) {
  disconnect(session);
  sessions_.erase(session);
}

Result<std::vector<CollectiveTotals>> CollectiveLedger::add(const SessionId& session,
                                                            const Report& report,
                                                            const AccountRef& account,
                                                            const Allowance& allowance) {
  if (report.collectives.size() > limits::kSeriesPerReport) {
    return failure(Code::too_large, "report: too many series: {}, limit {}",
                   report.collectives.size(), limits::kSeriesPerReport);
  }
  Reported& reported = sessions_[session];
  std::vector<CollectiveTotals> differences;
  if (report.number <= reported.number) return differences;
  std::map<Series, CollectiveTotals> totals = reported.totals;
  for (const CollectiveTotals& now : report.collectives) {
    CollectiveTotals& before = totals[{now.process_group, now.collective, now.backend}];
    for (const std::string* name : {&now.process_group, &now.collective, &now.backend}) {
      if (name->size() <= limits::kNameBytes) continue;
      return failure(Code::too_large, "report: name too long: {} bytes, limit {}", name->size(),
                     limits::kNameBytes);
    }
    std::optional<CollectiveTotals> d = difference(before, now);
    if (!d || !adds_up(now)) {
      return failure(
          Code::invalid_argument,
          "report: the totals of {} are invalid; in a session, no total may decrease, and the "
          "{} buckets must add up to the count",
          printable(now.collective, kLabelBytes), metric::kCoarseBuckets);
    }
    before = now;
    if (d->count > 0 || d->failures > 0) differences.push_back(std::move(*d));
  }
  if (totals.size() > limits::kSeriesPerReport) {
    return failure(Code::quota_exceeded, "report: too many series of one session: {}, limit {}",
                   totals.size(), limits::kSeriesPerReport);
  }
  const std::size_t bytes = totals.size() * kSeriesBytes;
  if (bytes > reported.charge.bytes()) {
    if (auto full = allowance.refuses(bytes - reported.charge.bytes(), "this report")) return *full;
    if (reported.charge.account() != account) reported.charge = Charge(account, 0);
    reported.charge.set(bytes);
  }
  in_flight_ -= in_flight_of(reported.totals);
  in_flight_ += in_flight_of(totals);
  reported.number = report.number;
  reported.totals = std::move(totals);
  for (CollectiveTotals& d : differences) {
    d.process_group = label(kinds_, d.process_group, limits::kProcessGroupKinds);
    d.collective = label(collectives_, d.collective, limits::kCollectiveNames);
    d.backend = label(backends_, d.backend, limits::kBackendNames);
  }
  return differences;
}

}  // namespace c10dd::core
