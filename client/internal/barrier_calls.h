// SPDX-License-Identifier: Apache-2.0
// Makes the barriers and exchanges of one client. Numbers them, so that all ranks use the same
// sequence for the same barrier. Joins the chunks of a long reply.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "client/client.h"
#include "client/internal/connection.h"

namespace c10dd::client {

/// Decodes the reply to an exchange: the number of parts, then the length and the bytes of each
/// part. Fails with Code::malformed if `bytes` does not have this form.
Result<std::vector<std::string>> decode_parts(std::string_view bytes);

/// Binds a call to a generation of a group. The options of the call give the generation number.
struct Bound {
  std::string group = {};               ///< empty: not bound
  std::vector<Rank> participants = {};  ///< ranks that take part, ascending; empty if all do
};

/// Owns the counters of the barriers. Thread-safe.
class BarrierCalls {
 public:
  /// Operation code, name, generation, rank.
  using Series = std::tuple<std::uint8_t, std::string, std::uint64_t, Rank>;

  explicit BarrierCalls(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  /// Block until the barrier has an outcome (success or failure), but no longer than the time-out
  /// in the options. Throw if the outcome is a failure. After an outcome the next call enters the
  /// next barrier. If a call ends without an outcome, because the daemon was unreachable, the next
  /// call enters the same barrier again.
  void barrier(const std::string& name, const BarrierOptions& options, Bound bound = {});
  std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                    const ExchangeOptions& options, Bound bound = {});

 private:
  /// Returns the sequence for the next call with this operation, name, generation and rank.
  std::uint64_t sequence_of(const Series& series);
  /// Notes that the barrier with this sequence has its outcome.
  void passed(const Series& series, std::uint64_t sequence);
  Reply arrive(const Series& series, std::uint64_t sequence, Request request, Duration timeout);

  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::map<Series, std::uint64_t> next_;  // sequence
};

}  // namespace c10dd::client
