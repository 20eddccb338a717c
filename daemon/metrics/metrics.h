// SPDX-License-Identifier: Apache-2.0
// Records the metrics of the catalogue (protocol/metric_catalog.h) with prometheus-cpp.
// Thread-safe.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/config/protocol_names.h"
#include "daemon/core/effects.h"
#include "daemon/core/job/job_stats.h"
#include "protocol/metric_catalog.h"
#include "store/engine.h"

namespace c10dd::core {
struct JobReport;
}

namespace c10dd::daemon {

struct MetricsInfo {
  std::string version;
  std::string engine;
  std::string durability;
};

/// One count for each bucket of metric::kRequestBounds, then the count of values above all bounds.
using RequestBuckets = std::array<std::uint64_t, metric::kRequestBounds.size() + 1>;

/// The results of a forward: "ok" (the other daemon has replied), "busy" (too many at a time),
/// "unreachable", "timed_out", "too_large" (its reply).
inline constexpr std::array<std::string_view, 5> kForwardResults = {"ok", "busy", "unreachable",
                                                                    "timed_out", "too_large"};

class Metrics {
 public:
  explicit Metrics(const MetricsInfo& info);
  ~Metrics();

  void ready(bool ready);
  /// Notes that the engine has another durability than before.
  void durability(std::string_view durability);
  void engine_up(bool up);

  /// free: free bytes on the disk of the state. full: true if requests that enlarge the state are
  /// refused.
  void disk(std::uint64_t free, bool full);

  /// stored, held: as core::MemoryLedger counts them. connections: as core::ConnectionBudget does.
  void memory(std::uint64_t stored, std::uint64_t held, std::uint64_t connections);
  void connection_opened(Protocol protocol);
  /// reason: one of a small fixed set, e.g. "peer", "malformed", "slow_consumer", "drain".
  void connection_closed(Protocol protocol, std::string_view reason);
  void protocol_error(Protocol protocol, Code code);

  void requests(Protocol protocol, const OpInfo& op, std::uint64_t count);
  /// Adds sent replies to the histogram of durations. `seconds` is the sum of their durations.
  void took(const OpInfo& op, const RequestBuckets& buckets, double seconds);
  void failed(const OpInfo& op, Code code);

  void committed(std::size_t rows, Duration took);
  void commit_failed(store::Outcome outcome);
  /// age: the age of the oldest commit that has not ended.
  void commit_age(Duration age);

  /// Counts an event of a job. train_job: a name from a client, sanitised here.
  void event(const std::string& train_job, const core::Event& event);
  /// Sets the gauges of a job. Ignored if the job has no series.
  void job_stats(const std::string& train_job, const core::JobStats& stats);
  /// Sets the series of the jobs that do not go on, from the reports on all runs, and removes those
  /// of all other jobs.
  void diagnoses(std::span<const core::JobReport> runs);
  /// loaded: runs that this daemon serves. owned: those of them that other daemons could serve.
  void jobs(std::size_t loaded, std::size_t owned);
  void endpoints(std::size_t leased);
  /// Adds one to the job's number of runs, because a run was loaded, or an idle run is used again.
  /// The first run creates the job's series.
  void job_loaded(const std::string& train_job);
  /// Subtracts one from the job's number of runs, because a run is no longer loaded or has become
  /// idle. If no run is left, removes the job's series.
  void remove_job(const std::string& train_job);

  // ---- several daemons

  void job_taken_over();
  /// A job was dropped because another daemon had claimed it.
  void deposed();
  void job_moved();
  /// left: until the lease ends; negative if it has ended. held: this daemon may serve.
  void lease(bool held, Duration left);
  /// Sets the silence of all other daemons, by their first address, and removes all other series.
  void silences(const std::map<std::string, Duration>& daemons);
  /// result: see kForwardResults.
  void forwarded(std::string_view result);
  /// A client has said who it is, and was taken (ok) or refused; no value: TLS has failed.
  void authenticated(std::optional<Code> outcome);
  void access_reloaded(bool taken);
  /// `at`: Unix time in seconds.
  void certificate_ends(std::int64_t at);

  /// Returns all metrics in the text format 0.0.4 of Prometheus. `sentences`: with the label that
  /// quotes what a diagnosis says.
  std::string render(bool sentences = true) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::daemon
