// SPDX-License-Identifier: Apache-2.0
// The catalogue bound to prometheus-cpp. Every call may be made from any thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/config/protocol_names.h"
#include "daemon/core/effects.h"
#include "daemon/core/job.h"
#include "protocol/metric_catalog.h"
#include "store/engine.h"

namespace c10dd::daemon {

struct MetricsInfo {
  std::string version;
  std::string engine;
  std::string durability;
};

/// Counts by metric::kRequestBounds, and above.
using RequestBuckets = std::array<std::uint64_t, metric::kRequestBounds.size() + 1>;

class Metrics {
 public:
  explicit Metrics(const MetricsInfo& info);
  ~Metrics();

  void ready(bool ready);
  void engine_up(bool up);

  /// Of the disk that the state is on; full: growth is refused.
  void disk(std::uint64_t free, bool full);

  /// What core::ConnectionBudget counts.
  void connection_bytes(std::uint64_t held);
  void connection_opened(Protocol protocol);
  /// reason: a closed set of words, e.g. "peer", "malformed", "slow_consumer", "drain".
  void connection_closed(Protocol protocol, std::string_view reason);
  void protocol_error(Protocol protocol, Code code);

  void requests(Protocol protocol, const OpInfo& op, std::uint64_t count);
  /// Answers left: how many took how long, and all together.
  void took(const OpInfo& op, const RequestBuckets& buckets, double seconds);
  void failed(const OpInfo& op, Code code);

  void committed(std::size_t rows, Duration took);
  void commit_failed(store::Outcome outcome);
  /// Of the oldest that has not ended.
  void commit_age(Duration age);

  /// What a job's effects tell. train_job is a name from a client: it is sanitised here.
  void event(const std::string& train_job, const core::Event& event);
  /// Of jobs that are loaded; others are ignored.
  void job_stats(const std::string& train_job, const core::JobStats& stats);
  void jobs(std::size_t loaded);
  /// A run of the job is served from now on; its series go with its last run.
  void job_loaded(const std::string& train_job);
  void remove_job(const std::string& train_job);

  /// Text format 0.0.4.
  std::string render() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::daemon
