// SPDX-License-Identifier: Apache-2.0
// Makes a prometheus-cpp family from an entry of the metric catalogue. The entry names the labels.
// All label values are converted by printable(), so that no text from a client can break a scrape.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "protocol/error.h"
#include "protocol/limits.h"
#include "protocol/metric_catalog.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Bounds = Histogram::BucketBoundaries;
using LabelValues = std::initializer_list<std::string_view>;

/// Replaces each new label value when the number of series has reached its limit.
inline constexpr std::string_view kOther = "other";

template <std::size_t N>
Bounds bounds_of(const std::array<double, N>& bounds) {
  return {bounds.begin(), bounds.end()};
}

/// A family of series. Is as thread-safe as prometheus::Family.
template <class Metric>
class Family {
 public:
  /// bounds: for a histogram only.
  Family(prometheus::Registry& registry, const metric::Info& info, Bounds bounds = {})
      : info_(info), bounds_(std::move(bounds)), family_(add(registry, info)) {}

  /// Returns the series with these label values, given in the order of the catalogue. Creates the
  /// series if it does not exist.
  Metric* with(LabelValues values) {
    prometheus::Labels labels;
    std::string_view names = info_.labels;
    for (const std::string_view value : values) {
      const std::size_t comma = names.find(',');
      labels.emplace(names.substr(0, comma), printable(value, limits::kNameBytes));
      names.remove_prefix(comma == std::string_view::npos ? names.size() : comma + 1);
    }
    C10DD_ASSERT(names.empty() && labels.size() == values.size());
    if constexpr (std::is_same_v<Metric, Histogram>) {
      return &family_.Add(labels, bounds_);
    } else {
      return &family_.Add(labels);
    }
  }

  void remove(Metric* series) { family_.Remove(series); }

 private:
  static prometheus::Family<Metric>& add(prometheus::Registry& registry, const metric::Info& info) {
    const std::string name(info.name);
    const std::string help(info.help);
    if constexpr (std::is_same_v<Metric, Counter>) {
      C10DD_ASSERT(info.kind == metric::Kind::counter);
      return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
    } else if constexpr (std::is_same_v<Metric, Gauge>) {
      C10DD_ASSERT(info.kind == metric::Kind::gauge);
      return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
    } else {
      C10DD_ASSERT(info.kind == metric::Kind::histogram);
      return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
    }
  }

  const metric::Info& info_;
  Bounds bounds_;
  prometheus::Family<Metric>& family_;
};

/// A family whose series are numbered and never removed: after the first use, access to a series
/// costs one array access. Thread-safe: if several threads create the same series at the same time,
/// all of them get the same object.
template <class Metric, std::size_t N = 1>
class Table {
 public:
  Table(prometheus::Registry& registry, const metric::Info& info, Bounds bounds = {})
      : family_(registry, info, std::move(bounds)) {}

  /// Returns the series with this number. The first call creates the series. All calls with the
  /// same number must have the same `values`.
  Metric& at(std::size_t number, LabelValues values) {
    Metric* series = series_[number].load(std::memory_order_acquire);
    if (!series) {
      series = family_.with(values);
      series_[number].store(series, std::memory_order_release);
    }
    return *series;
  }

 private:
  Family<Metric> family_;
  std::array<std::atomic<Metric*>, N> series_{};
};

}  // namespace c10dd::daemon
