// SPDX-License-Identifier: Apache-2.0
// The metric series of the daemon itself. Series that are known in advance exist from the start
// with the value 0, so that rate() in PromQL sees their first event.
#include "daemon/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>

#include "daemon/metrics/job_diagnoses.h"
#include "daemon/metrics/job_metrics.h"
#include "daemon/metrics/metric_family.h"
#include "daemon/metrics/process_usage.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kOps = 256;
constexpr std::size_t kCodeCount = std::size(kCodes);
constexpr std::size_t kProtocolLabels = kProtocolCount + 1;  // with Protocol::unknown

std::size_t index_of(Code code) { return static_cast<std::size_t>(describe(code).code); }

/// Returns a family of one series without labels, for a value that is read at the time of a scrape.
prometheus::MetricFamily single(const metric::Info& info, double value) {
  prometheus::MetricFamily family;
  family.name = std::string(info.name);
  family.help = std::string(info.help);
  prometheus::ClientMetric metric;
  if (info.kind == metric::Kind::counter) {
    family.type = prometheus::MetricType::Counter;
    metric.counter.value = value;
  } else {
    family.type = prometheus::MetricType::Gauge;
    metric.gauge.value = value;
  }
  family.metric.push_back(metric);
  return family;
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(const MetricsInfo& info);

  Counter& requests(Protocol protocol, const OpInfo& op) {
    return requests_.at(index_of(protocol) * kOps + op.code, {name_of(protocol), op.name});
  }
  Counter& failures(const OpInfo& op, Code code) {
    return failures_.at(op.code * kCodeCount + index_of(code), {op.name, name_of(code)});
  }
  Histogram& duration(const OpInfo& op) { return durations_.at(op.code, {op.name}); }
  Histogram& waited(std::uint8_t op, Code outcome) {
    const OpInfo* info = find_op(op);
    return waits_.at(op * kCodeCount + index_of(outcome),
                     {info ? info->name : kOther, name_of(outcome)});
  }
  Gauge& connections(Protocol protocol) {
    return connections_.at(index_of(protocol), {name_of(protocol)});
  }
  Counter& accepted(Protocol protocol) {
    return accepted_.at(index_of(protocol), {name_of(protocol)});
  }
  Counter& closed(Protocol protocol, std::string_view reason) {
    const std::lock_guard lock(closed_mutex_);
    auto& known = closed_series_[index_of(protocol)];
    const auto found = known.find(reason);
    if (found != known.end()) return *found->second;
    Counter* made = closed_.with({name_of(protocol), reason});
    known.emplace(reason, made);
    return *made;
  }
  Counter& refused(Protocol protocol, Code code) {
    return refused_.at(index_of(protocol) * kCodeCount + index_of(code),
                       {name_of(protocol), name_of(code)});
  }
  Counter& commit_failures(store::Outcome outcome) {
    switch (outcome) {
      case store::Outcome::fenced:
        return commit_failures_.at(0, {engine_, "fenced"});
      case store::Outcome::lost:
        return commit_failures_.at(1, {engine_, "lost"});
      case store::Outcome::absent:
        return commit_failures_.at(3, {engine_, "absent"});
      default:
        return commit_failures_.at(2, {engine_, "unknown"});
    }
  }
  Histogram& commit_duration() { return commit_durations_.at(0, {engine_}); }
  Histogram& commit_rows() { return commit_rows_.at(0, {engine_}); }
  Gauge& oldest_commit() { return oldest_commit_.at(0, {engine_}); }
  Gauge& engine_up() { return engine_up_.at(0, {engine_}); }
  void durability(std::string_view durability) {
    if (built_ != nullptr) build_.remove(built_);
    built_ = build_.with({version_, engine_, durability});
    built_->Set(1);
  }
  Gauge& disk_free() { return disk_free_.at(0, {}); }
  Gauge& disk_full() { return disk_full_.at(0, {}); }

  prometheus::Registry registry;

 private:
  const std::string engine_;
  const std::string version_;
  Family<Gauge> build_{registry, metric::kBuildInfo};
  Gauge* built_ = nullptr;
  Table<Gauge> started_{registry, metric::kUptime};
  Table<Gauge> oldest_commit_{registry, metric::kOldestCommit};
  Table<Gauge> engine_up_{registry, metric::kEngineUp};
  Table<Gauge> disk_free_{registry, metric::kDiskFree};
  Table<Gauge> disk_full_{registry, metric::kDiskFull};
  Table<Gauge, kProtocolLabels> connections_{registry, metric::kConnections};
  Table<Counter, kProtocolLabels> accepted_{registry, metric::kConnectionsAccepted};
  Family<Counter> closed_{registry, metric::kConnectionsClosed};
  std::mutex closed_mutex_;
  std::array<std::map<std::string, Counter*, std::less<>>, kProtocolLabels> closed_series_;
  Table<Counter, kProtocolLabels * kCodeCount> refused_{registry, metric::kProtocolErrors};
  Table<Counter, kProtocolLabels * kOps> requests_{registry, metric::kRequests};
  Table<Counter, kOps * kCodeCount> failures_{registry, metric::kRequestFailures};
  Table<Histogram, kOps> durations_{registry, metric::kRequestDuration,
                                    bounds_of(metric::kRequestBounds)};
  Table<Histogram, kOps * kCodeCount> waits_{registry, metric::kWaitDuration,
                                             bounds_of(metric::kWaitBounds)};
  Table<Histogram> commit_durations_{registry, metric::kCommitDuration,
                                     bounds_of(metric::kCommitBounds)};
  Table<Histogram> commit_rows_{registry, metric::kCommitRows, bounds_of(metric::kRowBounds)};
  Table<Counter, 4> commit_failures_{registry, metric::kCommitFailures};

 public:
  Gauge& ready = *Family<Gauge>(registry, metric::kReady).with({});
  Gauge& connection_bytes = *Family<Gauge>(registry, metric::kConnectionBytes).with({});
  Gauge& stored_bytes = *Family<Gauge>(registry, metric::kStoredBytes).with({});
  Gauge& held_bytes = *Family<Gauge>(registry, metric::kHeldBytes).with({});
  Gauge& jobs = *Family<Gauge>(registry, metric::kJobs).with({});
  Gauge& jobs_owned = *Family<Gauge>(registry, metric::kJobsOwned).with({});
  Counter& takeovers = *Family<Counter>(registry, metric::kTakeovers).with({});
  Counter& deposed = *Family<Counter>(registry, metric::kDeposed).with({});
  Counter& moves = *Family<Counter>(registry, metric::kMoves).with({});
  Gauge& lease_held = *Family<Gauge>(registry, metric::kLeaseHeld).with({});
  Gauge& lease_left = *Family<Gauge>(registry, metric::kLeaseLeft).with({});
  Family<Counter> forwards{registry, metric::kForwards};
  Family<Counter> authentications{registry, metric::kAuthentications};
  Family<Counter> access_reloads{registry, metric::kAccessReloads};
  Family<Gauge> certificate_ends{registry, metric::kCertificateEnds};
  Family<Gauge> silence{registry, metric::kDaemonSilence};
  std::mutex silence_mutex;
  std::map<std::string, Gauge*> silences;  // by the daemon's address
  Gauge& endpoints = *Family<Gauge>(registry, metric::kEndpoints).with({});
  Counter& replayed = *Family<Counter>(registry, metric::kReplayedReplies).with({});

  std::mutex job_mutex;
  JobMetrics by_job{registry};
  JobDiagnoses diagnoses{registry};
};

Metrics::Impl::Impl(const MetricsInfo& info) : engine_(info.engine), version_(info.version) {
  durability(info.durability);
  started_.at(0, {}).Set(seconds_of(std::chrono::system_clock::now().time_since_epoch()));
  engine_up();
  oldest_commit();
  commit_duration();
  commit_rows();
  commit_failures(store::Outcome::fenced);
  commit_failures(store::Outcome::lost);
  commit_failures(store::Outcome::absent);
  commit_failures(store::Outcome::unknown);
  for (const std::string_view result : kForwardResults) forwards.with({result});
  lease_held.Set(1);
  for (const auto& [protocol, name, carries_ops] : kProtocols) {
    connections(protocol);
    accepted(protocol);
    closed(protocol, "peer");
    refused(protocol, Code::malformed);
  }
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    for (const ProtocolName& entry : kProtocols) {
      if (entry.carries_ops) requests(entry.protocol, Op::op);
    }
    failures(Op::op, Code::unavailable);
    if (Op::op.kind != OpKind::wait) {
      duration(Op::op);
    } else {
      failures(Op::op, Code::timed_out);
      waited(Op::op.code, Code::ok);
      waited(Op::op.code, Code::timed_out);
    }
  });
}

Metrics::Metrics(const MetricsInfo& info) : impl_(std::make_unique<Impl>(info)) {}
Metrics::~Metrics() = default;

void Metrics::ready(bool ready) { impl_->ready.Set(ready ? 1 : 0); }

void Metrics::durability(std::string_view durability) { impl_->durability(durability); }

void Metrics::commit_age(Duration age) { impl_->oldest_commit().Set(seconds_of(age)); }

void Metrics::engine_up(bool up) { impl_->engine_up().Set(up ? 1 : 0); }

void Metrics::disk(std::uint64_t free, bool full) {
  impl_->disk_free().Set(static_cast<double>(free));
  impl_->disk_full().Set(full ? 1 : 0);
}

void Metrics::memory(std::uint64_t stored, std::uint64_t held, std::uint64_t connections) {
  impl_->stored_bytes.Set(static_cast<double>(stored));
  impl_->held_bytes.Set(static_cast<double>(held));
  impl_->connection_bytes.Set(static_cast<double>(connections));
}

void Metrics::connection_opened(Protocol protocol) {
  impl_->connections(protocol).Increment();
  impl_->accepted(protocol).Increment();
}

void Metrics::connection_closed(Protocol protocol, std::string_view reason) {
  // A connection with an unknown protocol was not counted by connection_opened().
  if (protocol != Protocol::unknown) impl_->connections(protocol).Decrement();
  impl_->closed(protocol, reason).Increment();
}

void Metrics::protocol_error(Protocol protocol, Code code) {
  impl_->refused(protocol, code).Increment();
}

void Metrics::requests(Protocol protocol, const OpInfo& op, std::uint64_t count) {
  impl_->requests(protocol, op).Increment(static_cast<double>(count));
}

void Metrics::took(const OpInfo& op, const RequestBuckets& buckets, double seconds) {
  impl_->duration(op).ObserveMultiple({buckets.begin(), buckets.end()}, seconds);
}

void Metrics::failed(const OpInfo& op, Code code) { impl_->failures(op, code).Increment(); }

void Metrics::committed(std::size_t rows, Duration took) {
  impl_->commit_duration().Observe(seconds_of(took));
  impl_->commit_rows().Observe(static_cast<double>(rows));
}

void Metrics::commit_failed(store::Outcome outcome) { impl_->commit_failures(outcome).Increment(); }

void Metrics::event(const std::string& train_job, const core::Event& event) {
  if (const auto* wait = std::get_if<core::WaitEnded>(&event)) {
    impl_->waited(wait->op, wait->outcome).Observe(seconds_of(wait->blocked));
  } else if (std::holds_alternative<core::ReplyReplayed>(event)) {
    impl_->replayed.Increment();
  } else {
    const std::lock_guard lock(impl_->job_mutex);
    impl_->by_job.event(train_job, event);
  }
}

void Metrics::job_stats(const std::string& train_job, const core::JobStats& stats) {
  const std::lock_guard lock(impl_->job_mutex);
  impl_->by_job.stats(train_job, stats);
}

void Metrics::diagnoses(std::span<const core::JobReport> runs) {
  const std::lock_guard lock(impl_->job_mutex);
  impl_->diagnoses.set(runs, std::chrono::system_clock::now().time_since_epoch());
}

void Metrics::endpoints(std::size_t leased) { impl_->endpoints.Set(static_cast<double>(leased)); }

void Metrics::jobs(std::size_t loaded, std::size_t owned) {
  impl_->jobs.Set(static_cast<double>(loaded));
  impl_->jobs_owned.Set(static_cast<double>(owned));
}

void Metrics::job_taken_over() { impl_->takeovers.Increment(); }
void Metrics::deposed() { impl_->deposed.Increment(); }
void Metrics::job_moved() { impl_->moves.Increment(); }

void Metrics::lease(bool held, Duration left) {
  impl_->lease_held.Set(held ? 1 : 0);
  impl_->lease_left.Set(seconds_of(left));
}

void Metrics::silences(const std::map<std::string, Duration>& daemons) {
  const std::lock_guard lock(impl_->silence_mutex);
  std::erase_if(impl_->silences, [&](const auto& series) {
    if (daemons.contains(series.first)) return false;
    impl_->silence.remove(series.second);
    return true;
  });
  for (const auto& [daemon, silent] : daemons) {
    Gauge*& series = impl_->silences[daemon];
    if (series == nullptr) series = impl_->silence.with({daemon});
    series->Set(seconds_of(silent));
  }
}

void Metrics::authenticated(std::optional<Code> outcome) {
  impl_->authentications.with({outcome ? name_of(*outcome) : "tls"})->Increment();
}
void Metrics::access_reloaded(bool taken) {
  impl_->access_reloads.with({taken ? "ok" : "refused"})->Increment();
}
void Metrics::certificate_ends(std::int64_t at) {
  impl_->certificate_ends.with({})->Set(static_cast<double>(at));
}
void Metrics::forwarded(std::string_view result) { impl_->forwards.with({result})->Increment(); }

void Metrics::job_loaded(const std::string& train_job) {
  const std::lock_guard lock(impl_->job_mutex);
  impl_->by_job.add(train_job);
}

void Metrics::remove_job(const std::string& train_job) {
  const std::lock_guard lock(impl_->job_mutex);
  impl_->by_job.remove(train_job);
}

std::string Metrics::render(bool sentences) const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  if (!sentences) leave_sentences_out(families);
  const ProcessUsage usage = process_usage();
  families.push_back(single(metric::kCpu, usage.cpu_seconds));
  families.push_back(single(metric::kResident, usage.resident_bytes));
  families.push_back(single(metric::kOpenFds, usage.open_fds));
  families.push_back(single(metric::kMaxFds, usage.max_fds));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace c10dd::daemon
