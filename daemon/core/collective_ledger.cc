// SPDX-License-Identifier: Apache-2.0
// Checks the whole report before adding any part of it, so that an invalid report adds nothing.
#include "daemon/core/collective_ledger.h"

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/metric_catalog.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kLabelBytes = 63;

bool adds_up(const CollectiveTotals& now) {
  std::uint64_t rest = now.count;
  for (const std::uint64_t n : now.buckets) {
    if (n > rest) return false;
    rest -= n;
  }
  return now.buckets.size() == metric::kCollectiveBuckets && rest == 0;
}

bool shrinks(const CollectiveTotals& before, const CollectiveTotals& now) {
  bool less = now.count < before.count || now.failures < before.failures ||
              now.payload_bytes < before.payload_bytes || now.bus_bytes < before.bus_bytes ||
              now.duration_ns < before.duration_ns;
  for (std::size_t i = 0; i < before.buckets.size(); ++i) {
    less = less || now.buckets[i] < before.buckets[i];
  }
  return less;
}

CollectiveTotals difference(const CollectiveTotals& before, const CollectiveTotals& now) {
  CollectiveTotals d = now;
  d.count -= before.count;
  d.failures -= before.failures;
  d.payload_bytes -= before.payload_bytes;
  d.bus_bytes -= before.bus_bytes;
  d.duration_ns -= before.duration_ns;
  for (std::size_t i = 0; i < before.buckets.size(); ++i) d.buckets[i] -= before.buckets[i];
  return d;
}

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

Result<std::vector<CollectiveTotals>> CollectiveLedger::add(const SessionId& session,
                                                            const Report& report) {
  if (report.collectives.size() > limits::kSeriesPerReport) {
    return failure(Code::too_large, "report: {} series, limit {}", report.collectives.size(),
                   limits::kSeriesPerReport);
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
    if (!adds_up(now) || shrinks(before, now)) {
      return failure(
          Code::invalid_argument,
          "report: the totals of {} are invalid; in a session, no total may decrease, and the "
          "{} buckets must add up to the count",
          printable(now.collective, kLabelBytes), metric::kCollectiveBuckets);
    }
    CollectiveTotals d = difference(before, now);
    before = now;
    if (d.count > 0 || d.failures > 0) differences.push_back(std::move(d));
  }
  if (totals.size() > limits::kSeriesPerReport) {
    return failure(Code::quota_exceeded, "report: too many series of one session: {}, limit {}",
                   totals.size(), limits::kSeriesPerReport);
  }
  reported = {report.number, std::move(totals)};
  for (CollectiveTotals& d : differences) {
    d.process_group = label(kinds_, d.process_group, limits::kProcessGroupKinds);
    d.collective = label(collectives_, d.collective, limits::kCollectiveNames);
    d.backend = label(backends_, d.backend, limits::kBackendNames);
  }
  return differences;
}

}  // namespace c10dd::core
