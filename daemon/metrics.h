// SPDX-License-Identifier: Apache-2.0
// The catalogue bound to prometheus-cpp. Counting happens on the loop's thread and costs no lock
// look-ups; render() may run on another thread at the same time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "daemon/core/effects.h"
#include "daemon/core/job.h"
#include "store/engine.h"

namespace c10dd::daemon {

enum class Protocol { native, http, unknown };

struct MetricsInfo {
  std::string version;
  std::string engine;
  std::string durability;
};

class Metrics {
 public:
  explicit Metrics(const MetricsInfo& info);
  ~Metrics();

  void ready(bool ready);
  void engine_up(bool up);

  void connection_opened(Protocol protocol);
  /// reason: a closed set of words, e.g. "peer", "malformed", "slow_consumer", "drain".
  void connection_closed(Protocol protocol, std::string_view reason);
  void protocol_error(Protocol protocol, Code code);

  void request(Protocol protocol, const OpInfo& op);
  /// An answer left; took: decoded to released. Blocking operations are timed by their events.
  void answered(const OpInfo& op, Code outcome, Duration took);

  void committed(std::size_t rows, Duration took);
  void commit_failed(store::Outcome outcome);

  /// What a job's effects tell. train_job is a name from a client: it is sanitised here.
  void event(const std::string& train_job, const core::Event& event);
  void job_stats(const std::string& train_job, const core::JobStats& stats);
  void jobs(std::size_t loaded);
  /// The series of a job go with it.
  void remove_job(const std::string& train_job);

  /// Text format 0.0.4. Thread-safe.
  std::string render() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::daemon
