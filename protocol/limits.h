// SPDX-License-Identifier: Apache-2.0
// All limits of the service. A request that exceeds a limit fails with a text that has the value
// and the limit. Where the name of a limit does not tell its unit or scope, a comment does.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace c10dd::limits {

inline constexpr std::size_t kKeyBytes = 8 * 1024;           // the bound of PyTorch's TCPStore
inline constexpr std::size_t kValueBytes = 8 * 1024 * 1024;  // the bound of PyTorch's TCPStore
inline constexpr std::size_t kKeysPerRequest = 131'072;      // the bound of PyTorch's TCPStore
inline constexpr std::size_t kListElements = 1'048'576;      // elements of any list in a message
inline constexpr std::size_t kFrameBytes = 16 * 1024 * 1024 + 64 * 1024;
inline constexpr std::size_t kTcpStoreMessageBytes = 64 * 1024 * 1024;  // also of a list of keys
inline constexpr std::size_t kHelloFrameBytes = 16 * 1024;  // size of frames before a session opens
// Of servers of other projects: one reply, and one text of theirs in an error or a log.
inline constexpr std::size_t kForeignReplyBytes = 64 * 1024 * 1024;
inline constexpr std::size_t kForeignTextBytes = 512;
inline constexpr std::size_t kCredentialBytes = 8 * 1024;
inline constexpr std::size_t kNameBytes = 255;  // job, run, group, host names
inline constexpr std::size_t kNameShown = 128;  // of a job, run or endpoint in an error
inline constexpr std::size_t kLabels = 64;      // labels of one session
inline constexpr std::size_t kListPageKeys = 65'536;
inline constexpr std::size_t kListPageBytes = 8 * 1024 * 1024;

inline constexpr std::size_t kProxyClients = 1'024;   // connected to one node proxy
inline constexpr std::size_t kSessionWindow = 1'024;  // unacknowledged requests of a session
inline constexpr std::size_t kChannelsPerConnection = 65'536;
inline constexpr std::size_t kSessionsPerJob = 131'072;
inline constexpr std::size_t kJobs = 65'536;
inline constexpr std::size_t kEndedRuns = 1'024;  // plain runs that have ended and can be read
inline constexpr std::uint64_t kEndedBytes = std::uint64_t{256} * 1024 * 1024;  // of these
inline constexpr std::size_t kShards = 64;
inline constexpr std::size_t kWaitsPerJob = 1'048'576;        // blocked requests
inline constexpr std::size_t kWaitedKeysPerJob = 16'777'216;  // keys that blocked requests name
inline constexpr std::size_t kKeysPerJob = 4'194'304;
inline constexpr std::size_t kBytesPerJob = std::size_t{4} * 1024 * 1024 * 1024;
inline constexpr std::size_t kQueueItemsPerJob = 1'048'576;
inline constexpr std::size_t kQueueBytesPerJob = 256 * 1024 * 1024;
inline constexpr std::size_t kConditions = 1'024;                // per transaction
inline constexpr std::size_t kActions = 1'024;                   // per transaction
inline constexpr std::size_t kTransactBytes = 64 * 1024 * 1024;  // all values of one transaction
// Actions of kind `add` in one transaction. Limited because the stored reply contains their sums.
inline constexpr std::size_t kSums = 16;
inline constexpr std::size_t kHistoryChanges = 65'536;         // per job, for watches
inline constexpr std::size_t kVolatileHistoryChanges = 4'096;  // of a run that is not stored
inline constexpr std::size_t kHistoryBytes = 16 * 1024 * 1024;
// Number of watched keys and prefixes per job whose changes survive a restart of the daemon.
inline constexpr std::size_t kWatchedKept = 65'536;
inline constexpr std::size_t kWatchReplyBytes = 1024 * 1024;
inline constexpr std::size_t kExpiriesPerTick = 4'096;
inline constexpr std::size_t kExpiredKept = 65'536;  // ended sessions that a job remembers
inline constexpr std::size_t kDepartedKept = 1'024;  // ranks that have left, that a job remembers
inline constexpr std::size_t kStoredReplyBytes = 256;
// Limits of a client's unread replies. Above kOutboxSoftBytes, the daemon stops reading from the
// connection. Above kOutboxHardBytes, the daemon closes the connection if the client has read
// nothing for kOutboxFullTime. Above kOutboxMostBytes, the daemon always closes the connection.
inline constexpr std::size_t kOutboxSoftBytes = 8 * 1024 * 1024;
inline constexpr std::size_t kOutboxHardBytes = 64 * 1024 * 1024;
inline constexpr std::chrono::nanoseconds kOutboxFullTime = std::chrono::seconds(5);
inline constexpr std::size_t kOutboxMostBytes = 256 * 1024 * 1024;
// The limit of all unfinished frames and unread replies together is --max-bytes divided by
// kConnectionShare, but at least kConnectionBytesMin. Frames up to kUncountedBytes do not count.
// The unread replies of a connection count only if their total exceeds kUncountedBytes.
inline constexpr std::uint64_t kConnectionShare = 8;
inline constexpr std::uint64_t kConnectionBytesMin = 20ull * 1024 * 1024;
inline constexpr std::size_t kUncountedBytes = 8 * 1024;
// What is held for clients beside stored keys may take this much even if keys fill --max-bytes, so
// that clients can connect and remove some.
inline constexpr std::uint64_t kHeldBytesMin = 16ull * 1024 * 1024;
inline constexpr std::size_t kSmallFrameBytes = 64 * 1024 + 64;  // a frame with its header
inline constexpr std::chrono::milliseconds kBudgetLook{100};

inline constexpr std::uint32_t kWorldSize = 131'072;
inline constexpr std::size_t kBarriersPerJob = 16'384;  // unfinished barriers and exchanges
inline constexpr std::size_t kOutcomesKept = 4'096;     // per job, for late retries
inline constexpr std::size_t kOutcomesKeptShort = 256;  // when memory is short
inline constexpr std::size_t kOutcomeBytesKept = 256 * 1024 * 1024;
inline constexpr std::size_t kArrivedBytes = 512 * 1024 * 1024;  // parts in unfinished exchanges
inline constexpr std::size_t kExchangeChunkBytes = 1024 * 1024;
inline constexpr std::size_t kMissingNamed = 64;  // most ranks (or ranges) that one message names

inline constexpr std::size_t kGroupsPerJob = 4'096;
inline constexpr std::size_t kNotices = 64;           // per group
inline constexpr std::size_t kLabelBytes = 4 * 1024;  // per member: all its labels
inline constexpr std::size_t kReasonBytes = 2 * 1024;
inline constexpr std::chrono::milliseconds kReconnectGrace{250};
inline constexpr std::chrono::seconds kRestartGrace{10};  // time to reconnect to a restarted daemon
// As kRestartGrace, on an engine that several daemons share: also the time to find the next owner.
inline constexpr std::chrono::seconds kTakeoverGrace{30};
// What has passed of a last call, or of the time of a member to return, counts over a restart, but
// at least this much remains after the load of the job.
inline constexpr std::chrono::seconds kTimeLeftMin{3};
inline constexpr std::size_t kAwayNoted = 256;  // members whose time left rows have, per job
inline constexpr std::chrono::nanoseconds kMemberTtlMin = std::chrono::milliseconds(500);
inline constexpr std::chrono::nanoseconds kMemberTtlMax = std::chrono::minutes(10);

inline constexpr std::chrono::seconds kAbsence{
    2};  // a session without a connection counts as gone after this time

inline constexpr std::size_t kGroupsPerActivity = 64;      // process groups in one report
inline constexpr std::size_t kMarksPerActivity = 64;       // of each kind and process group
inline constexpr std::size_t kOpenGroups = 4'096;          // process groups of one session
inline constexpr std::size_t kGroupRanksPerJob = 524'288;  // sizes of all process groups together
inline constexpr std::size_t kOperationNameBytes = 63;  // name and arguments of an operation, each

inline constexpr std::size_t kSeriesPerReport = 512;
inline constexpr std::size_t kProcessGroupKinds = 16;  // per job; metrics call further ones "other"
inline constexpr std::size_t kCollectiveNames = 32;    // per job; metrics call further ones "other"
inline constexpr std::size_t kBackendNames = 8;        // per job; metrics call further ones "other"
inline constexpr std::size_t kJobsInMetrics = 200;     // metrics call further ones "other"

inline constexpr std::chrono::nanoseconds kTimeoutMax = std::chrono::hours(24 * 30);
inline constexpr std::chrono::seconds kHelloDeadline{5};
// While a job is being loaded, a hello gets an answer after kLoadAnswer. Its client is asked to
// come back after a time that grows with the number of clients, between these two. All three
// together are less than the four fifths of a ttl after which a member fences itself.
inline constexpr std::chrono::milliseconds kLoadAnswer{250};
inline constexpr std::chrono::milliseconds kLoadRetryMin{100};
inline constexpr std::chrono::milliseconds kLoadRetryMax{1000};
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
inline constexpr std::chrono::milliseconds kSessionTtl{2500};
inline constexpr std::chrono::nanoseconds kSessionExpiry = std::chrono::minutes(10);
inline constexpr std::chrono::nanoseconds kSessionExpiryMin = std::chrono::seconds(1);
inline constexpr std::chrono::nanoseconds kSessionExpiryMax = std::chrono::hours(24);
inline constexpr std::chrono::nanoseconds kKeyTtlMin = std::chrono::milliseconds(10);
inline constexpr std::chrono::nanoseconds kKeyTtlMax = std::chrono::hours(24 * 365);
inline constexpr std::chrono::seconds kRunGrace{
    30};  // a run without sessions is erased after this time

// New jobs in a fleet: each address may make some at once, then so many a second. A client whose
// job would have to wait longer is refused.
inline constexpr int kNewJobsAtOnce = 256;
inline constexpr int kNewJobsPerSecond = 100;
inline constexpr std::chrono::nanoseconds kNewJobWait = std::chrono::seconds(2);

// Endpoints: ports that are leased for clients of PyTorch's TCPStore. The ttl of an endpoint runs
// while the endpoint has no connection.
inline constexpr std::size_t kEndpoints = 4'096;
inline constexpr std::chrono::nanoseconds kEndpointTtl = std::chrono::minutes(10);
inline constexpr std::chrono::nanoseconds kEndpointTtlMin = std::chrono::seconds(1);
inline constexpr std::chrono::nanoseconds kEndpointTtlMax = std::chrono::hours(24 * 30);

// Daemons that share an engine. A daemon that has not renewed its lease for this time loses its
// jobs.
inline constexpr std::chrono::nanoseconds kLease = std::chrono::seconds(2);
inline constexpr std::chrono::nanoseconds kLeaseMin = std::chrono::seconds(1);
inline constexpr std::chrono::nanoseconds kLeaseMax = std::chrono::seconds(60);
inline constexpr std::size_t kDaemons = 64;    // that share an engine
inline constexpr std::size_t kAdvertised = 8;  // addresses of one daemon

/// A daemon closes a connection whose TLS handshake has not had its turn for so long.
inline constexpr std::chrono::seconds kHandshakeTurn{3};
/// A client waits for so long until its TLS handshake is done.
inline constexpr std::chrono::seconds kHandshakePatience{5};
static_assert(kHandshakePatience > kHandshakeTurn);
inline constexpr std::chrono::seconds kIdleTimeout{60};  // silence that ends a native connection
inline constexpr std::size_t kSpareFiles = 64;  // file descriptors kept free for other uses
inline constexpr std::size_t kConnectionsPerAddress = 4'096;
// Default reserve of free disk space: 512 MiB, or 5 % of the disk if that is more.
inline constexpr std::uint64_t kDiskReserve = 512ull * 1024 * 1024;
inline constexpr std::uint64_t kDiskMinimum = 128ull * 1024 * 1024;
inline constexpr std::uint64_t kDiskBallast = 64ull * 1024 * 1024;

inline constexpr std::size_t kHttpHeaderBytes = 8 * 1024;
inline constexpr std::size_t kHttpBodyBytes = 64 * 1024;

static_assert(kListElements >= kKeysPerRequest && kListElements >= kWorldSize, "a list fits");
static_assert(kFrameBytes >= kValueBytes + kKeyBytes + 1024, "a frame fits a maximal value");
static_assert(kHelloFrameBytes >= kCredentialBytes + 4 * kNameBytes, "a hello fits");
static_assert(kExchangeChunkBytes < kFrameBytes, "a chunk fits a frame");
static_assert(kOutboxSoftBytes + kFrameBytes < kOutboxHardBytes, "one reply never ends a reader");
static_assert(kOutboxHardBytes < kOutboxMostBytes, "a reader may be sent more");
static_assert(kFrameBytes + 1024 < kConnectionBytesMin,
              "any frame fits when no connection holds memory");
static_assert(kHttpHeaderBytes + kHttpBodyBytes < 2 * kSmallFrameBytes, "requests are small");

}  // namespace c10dd::limits
