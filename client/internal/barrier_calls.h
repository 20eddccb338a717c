// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges of one client: counts them, so that every rank means the same one, and
// puts the chunks of an answer together.
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

/// The parts in the answer of an exchange: a count, then each with its length. malformed when the
/// bytes are not exactly that.
Result<std::vector<std::string>> decode_parts(std::string_view bytes);

/// The group whose generation a barrier is bound to, and who of it meets.
struct Bound {
  std::string group = {};
  std::vector<Rank> participants = {};
};

class BarrierCalls {
 public:
  explicit BarrierCalls(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)) {}

  /// Both throw. A barrier that has an outcome, good or bad, is over for everybody: the next call
  /// means the next one. Only when this client gave up without one, the next call is for the same.
  void barrier(const std::string& name, const BarrierOptions& options, Bound bound = {});
  std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                    const ExchangeOptions& options, Bound bound = {});

 private:
  /// Operation code, name, generation, rank.
  using Series = std::tuple<std::uint8_t, std::string, std::uint64_t, Rank>;

  std::uint64_t sequence_of(const Series& series);
  void passed(const Series& series, std::uint64_t sequence);
  Reply meet(const Series& series, std::uint64_t sequence, Request request, Duration timeout);

  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::map<Series, std::uint64_t> next_;
};

}  // namespace c10dd::client
