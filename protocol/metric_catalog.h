// SPDX-License-Identifier: Apache-2.0
// The table of all metrics: name, kind, labels, help. Dashboards, alerts and docs are tested
// against this table; no other source contains a metric name.
// To add a metric, add a line here, an increment in daemon/metrics/metrics.cc, and a dashboard
// panel.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace c10dd::metric {

enum class Kind { counter, gauge, histogram };

struct Info {
  std::string_view name;
  Kind kind;
  std::string_view labels;  ///< comma separated, in order
  std::string_view help;
};

inline constexpr Info kBuildInfo{
    "c10dd_build_info", Kind::gauge, "version,engine,durability",
    "Constant 1; the labels name the running version, engine and durability"};
inline constexpr Info kUptime{"c10dd_start_time_seconds", Kind::gauge, "",
                              "Unix time when the daemon began to serve"};
inline constexpr Info kReady{"c10dd_ready", Kind::gauge, "",
                             "1 while the daemon serves requests, as /readyz reports"};
inline constexpr Info kConnections{"c10dd_connections", Kind::gauge, "protocol",
                                   "Open connections"};
inline constexpr Info kConnectionsAccepted{"c10dd_connections_accepted_total", Kind::counter,
                                           "protocol", "Connections whose protocol was recognised"};
inline constexpr Info kConnectionsClosed{"c10dd_connections_closed_total", Kind::counter,
                                         "protocol,reason", "Connections ended, by reason"};
inline constexpr Info kConnectionBytes{"c10dd_connection_bytes", Kind::gauge, "",
                                       "Bytes that all connections together hold in unfinished "
                                       "frames and unread replies above 8 KiB"};
inline constexpr Info kStoredBytes{"c10dd_stored_bytes", Kind::gauge, "",
                                   "Memory of the keys, queues and histories of all jobs"};
inline constexpr Info kHeldBytes{"c10dd_held_bytes", Kind::gauge, "",
                                 "Memory that is held for clients: sessions, blocked requests, "
                                 "arrivals, outcomes, members, reports and credentials"};
inline constexpr Info kProtocolErrors{
    "c10dd_protocol_errors_total", Kind::counter, "protocol,code",
    "Frames and requests that were refused before they had an effect"};
inline constexpr Info kRequests{"c10dd_store_requests_total", Kind::counter, "protocol,op",
                                "Requests by operation"};
inline constexpr Info kRequestFailures{"c10dd_store_request_failures_total", Kind::counter,
                                       "op,code", "Requests answered with a failure"};
inline constexpr Info kRequestDuration{
    "c10dd_store_request_duration_seconds", Kind::histogram, "op",
    "Time from the decoded request to the released reply, for operations that do not block"};
inline constexpr Info kWaitDuration{"c10dd_store_wait_duration_seconds", Kind::histogram,
                                    "op,outcome",
                                    "Time for which operations that wait were blocked"};
inline constexpr Info kWaiters{
    "c10dd_store_waiters", Kind::gauge, "train_job",
    "Requests that are blocked now, without those of sessions that may only read"};
inline constexpr Info kKeys{"c10dd_store_keys", Kind::gauge, "train_job", "Live keys"};
inline constexpr Info kValueBytes{"c10dd_store_value_bytes", Kind::gauge, "train_job",
                                  "Bytes of live keys and values"};
inline constexpr Info kJobs{"c10dd_jobs", Kind::gauge, "", "Jobs loaded in this daemon"};
inline constexpr Info kJobsOwned{
    "c10dd_jobs_owned", Kind::gauge, "",
    "Runs of jobs that this daemon owns and serves, except runs that exist only in memory"};
inline constexpr Info kTakeovers{
    "c10dd_takeovers_total", Kind::counter, "",
    "Jobs that this daemon has claimed because the lease of their owner had expired"};
inline constexpr Info kDeposed{
    "c10dd_deposed_total", Kind::counter, "",
    "Jobs that this daemon has dropped because another daemon had claimed them"};
inline constexpr Info kMoves{"c10dd_moves_total", Kind::counter, "",
                             "Jobs that this daemon has handed to another daemon on request"};
inline constexpr Info kLeaseHeld{
    "c10dd_lease_held", Kind::gauge, "",
    "1 while this daemon may serve jobs: its lease is valid, or no other daemon shares the engine"};
inline constexpr Info kLeaseLeft{"c10dd_lease_left_seconds", Kind::gauge, "",
                                 "Time until the lease expires without a new heartbeat; negative: "
                                 "since it expired; 0: no lease"};
inline constexpr Info kDaemonSilence{
    "c10dd_daemon_silence_seconds", Kind::gauge, "daemon",
    "Time since a heartbeat of this other daemon was read; the label is its first address"};
inline constexpr Info kForwards{
    "c10dd_forwarded_requests_total", Kind::counter, "outcome",
    "HTTP requests that were passed on to the daemon that serves the job"};
inline constexpr Info kAuthentications{
    "c10dd_authentications_total", Kind::counter, "outcome",
    "With --tls, how often clients have said who they are: ok, the code of the refusal, or tls "
    "if the TLS handshake has failed"};
inline constexpr Info kAccessReloads{
    "c10dd_access_reloads_total", Kind::counter, "outcome",
    "How often the files of --tls and --grants were read again: ok, or refused and not in force"};
inline constexpr Info kCertificateEnds{
    "c10dd_certificate_expiry_seconds", Kind::gauge, "",
    "Unix time at which the daemon's certificate (--tls) expires; absent without --tls"};
inline constexpr Info kEndpoints{"c10dd_endpoints", Kind::gauge, "",
                                 "Ports that are leased for clients of PyTorch's TCPStore"};
inline constexpr Info kSessions{"c10dd_sessions", Kind::gauge, "train_job",
                                "Sessions with a connection, without those that may only read"};
inline constexpr Info kMembers{"c10dd_members", Kind::gauge, "train_job",
                               "Members of the newest generations that are present"};
inline constexpr Info kMembersMissing{
    "c10dd_members_missing", Kind::gauge, "train_job",
    "Members of the newest generations that are lost or have left, and were not replaced"};
inline constexpr Info kGenerations{"c10dd_generations_total", Kind::counter, "train_job,outcome",
                                   "Generations of groups that have formed or ended"};
inline constexpr Info kDiagnosis{"c10dd_job_diagnosis_timestamp_seconds", Kind::gauge,
                                 "train_job,state,kind,sentence",
                                 "Unix time when a job that does not go on began to wait; the "
                                 "sentence says why. Jobs that go on "
                                 "have no series"};
inline constexpr Info kReplayedReplies{
    "c10dd_replayed_replies_total", Kind::counter, "",
    "Repeated requests answered from their stored reply instead of being applied again"};
inline constexpr Info kBarriersPending{
    "c10dd_barriers_pending", Kind::gauge, "train_job",
    "Barriers and exchanges at which some but not all ranks have arrived"};
inline constexpr Info kBarrierSpread{
    "c10dd_barrier_arrival_spread_seconds", Kind::histogram, "train_job",
    "Time from the first to the last arrival at a released barrier or exchange"};
inline constexpr Info kCommitDuration{"c10dd_engine_commit_duration_seconds", Kind::histogram,
                                      "engine",
                                      "Time that the engine took to make one group commit durable"};
inline constexpr Info kCommitRows{"c10dd_engine_commit_rows", Kind::histogram, "engine",
                                  "Rows in one group commit"};
inline constexpr Info kCommitFailures{"c10dd_engine_commit_failures_total", Kind::counter,
                                      "engine,outcome",
                                      "Commits that were fenced, lost, absent or unknown"};
inline constexpr Info kOldestCommit{
    "c10dd_engine_oldest_commit_seconds", Kind::gauge, "engine",
    "Age of the oldest commit that has not ended; 0 if there is none"};
inline constexpr Info kEngineUp{"c10dd_engine_up", Kind::gauge, "engine",
                                "1 when the engine is open"};
inline constexpr Info kDiskFree{"c10dd_disk_free_bytes", Kind::gauge, "",
                                "Free bytes on the disk that holds the state"};
inline constexpr Info kDiskFull{
    "c10dd_disk_full", Kind::gauge, "",
    "1 while requests that grow the state are refused because its disk is nearly full"};
inline constexpr Info kCollectiveDuration{"c10dd_collective_duration_seconds", Kind::histogram,
                                          "train_job,process_group,collective,backend",
                                          "Time from when the backend starts a collective until it "
                                          "ends, as measured by the ranks"};
inline constexpr Info kCollectiveQueue{"c10dd_collective_queue_seconds", Kind::histogram,
                                       "train_job,process_group,collective,backend",
                                       "Time that an issued collective waited on its rank until "
                                       "the backend started it"};
inline constexpr Info kCollectivesInFlight{
    "c10dd_collectives_in_flight", Kind::gauge, "train_job",
    "Collectives that ranks have issued and that have not ended, by the ranks' last reports"};
inline constexpr Info kCollectivePayload{
    "c10dd_collective_payload_bytes_total", Kind::counter,
    "train_job,process_group,collective,backend",
    "Payload bytes of collectives (the algorithm bytes of nccl-tests)"};
inline constexpr Info kCollectiveBus{"c10dd_collective_bus_bytes_total", Kind::counter,
                                     "train_job,process_group,collective,backend",
                                     "Payload bytes times the bus factor of nccl-tests"};
inline constexpr Info kCollectiveFailures{"c10dd_collective_failures_total", Kind::counter,
                                          "train_job,process_group,collective,backend",
                                          "Collectives that did not complete"};
inline constexpr Info kCpu{"process_cpu_seconds_total", Kind::counter, "",
                           "User and system CPU time of the daemon"};
inline constexpr Info kResident{"process_resident_memory_bytes", Kind::gauge, "",
                                "Resident memory of the daemon"};
inline constexpr Info kOpenFds{"process_open_fds", Kind::gauge, "", "Open file descriptors"};
inline constexpr Info kMaxFds{"process_max_fds", Kind::gauge, "",
                              "Maximum number of open file descriptors"};

inline constexpr std::array kAll = {kBuildInfo,
                                    kUptime,
                                    kReady,
                                    kConnections,
                                    kConnectionsAccepted,
                                    kConnectionsClosed,
                                    kConnectionBytes,
                                    kStoredBytes,
                                    kHeldBytes,
                                    kProtocolErrors,
                                    kRequests,
                                    kRequestFailures,
                                    kRequestDuration,
                                    kWaitDuration,
                                    kWaiters,
                                    kKeys,
                                    kValueBytes,
                                    kJobs,
                                    kJobsOwned,
                                    kTakeovers,
                                    kDeposed,
                                    kMoves,
                                    kLeaseHeld,
                                    kLeaseLeft,
                                    kDaemonSilence,
                                    kForwards,
                                    kAuthentications,
                                    kAccessReloads,
                                    kCertificateEnds,
                                    kEndpoints,
                                    kSessions,
                                    kMembers,
                                    kMembersMissing,
                                    kGenerations,
                                    kDiagnosis,
                                    kReplayedReplies,
                                    kBarriersPending,
                                    kBarrierSpread,
                                    kCommitDuration,
                                    kCommitRows,
                                    kCommitFailures,
                                    kOldestCommit,
                                    kEngineUp,
                                    kDiskFree,
                                    kDiskFull,
                                    kCollectiveDuration,
                                    kCollectiveQueue,
                                    kCollectivesInFlight,
                                    kCollectivePayload,
                                    kCollectiveBus,
                                    kCollectiveFailures,
                                    kCpu,
                                    kResident,
                                    kOpenFds,
                                    kMaxFds};

/// Upper bounds in seconds of the histograms of collectives. The last bound, +Inf, is left out. The
/// client and the daemon share these tables. CollectiveTotals counts the calls below the first
/// coarse bound by the fine bounds, too.
inline constexpr std::array kFineBounds = {2.5e-7, 5e-7, 1e-6, 2.5e-6, 5e-6};
inline constexpr std::array kCoarseBounds = {
    1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
    5e-2, 1e-1,   2.5e-1, 5e-1, 1.0,    2.5,  5.0,  10.0,   25.0, 50.0, 100.0};
inline constexpr std::size_t kCoarseBuckets = kCoarseBounds.size() + 1;

/// The fine bounds, followed by the coarse bounds.
inline constexpr auto kCollectiveBounds = [] {
  std::array<double, kFineBounds.size() + kCoarseBounds.size()> all{};
  std::ranges::copy(kFineBounds, all.begin());
  std::ranges::copy(kCoarseBounds, all.begin() + kFineBounds.size());
  return all;
}();
inline constexpr std::size_t kCollectiveBuckets = kCollectiveBounds.size() + 1;

inline constexpr std::array kRequestBounds = {5e-5, 1e-4,   2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3,
                                              1e-2, 2.5e-2, 5e-2,   0.1,  0.25, 1.0,    5.0};
inline constexpr std::array kWaitBounds = {1e-3, 5e-3, 1e-2, 5e-2, 0.1,   0.5,   1.0,
                                           5.0,  15.0, 30.0, 60.0, 300.0, 900.0, 1800.0};
inline constexpr std::array kCommitBounds = {1e-4,   2.5e-4, 5e-4,   1e-3,  2e-3, 4e-3, 8e-3,
                                             1.6e-2, 3.2e-2, 6.4e-2, 0.128, 0.5,  2.0,  8.0};
inline constexpr std::array kRowBounds = {1.0,   2.0,   4.0,   8.0,    16.0,   32.0,   64.0,
                                          128.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0};

}  // namespace c10dd::metric
