// SPDX-License-Identifier: Apache-2.0
// Sends the arrival of this rank, then fetches the rest of a reply that is longer than one chunk.
#include "client/internal/barrier_calls.h"

#include <algorithm>
#include <utility>

#include "client/internal/throw_failure.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::client {
namespace {

/// Fills the fields that barriers and exchanges have in common, except the sequence.
template <class Op, class Options>
void fill(Op& request, const std::string& name, const Options& options, Bound&& bound) {
  request.name = name;
  request.generation = options.generation;
  request.rank = options.rank;
  request.world_size = options.world_size;
  // With 0, the client would not wait for the reply, which names the missing ranks.
  request.timeout = std::max(options.timeout, Duration(1));
  request.group = std::move(bound.group);
  request.participants = std::move(bound.participants);
}

/// Puts the barrier's name before a failure that does not have it: those of the client itself do
/// not know for what it was asked.
Failure naming(const BarrierCalls::Series& series, Failure why) {
  const std::string name = "\"" + printable(std::get<1>(series), limits::kNameShown) + "\"";
  if (why.detail.find(name) != std::string::npos) return why;
  const bool is_barrier = std::get<0>(series) == Barrier::op.code;
  const std::string kind = is_barrier ? "barrier" : "exchange";
  const bool has_kind = why.detail.starts_with(kind + " ");  // "barrier timed out after 3 s: ..."
  why.detail = kind + " " + name + (has_kind ? why.detail.substr(kind.size()) : ": " + why.detail);
  return why;
}

}  // namespace

Result<std::vector<std::string>> decode_parts(std::string_view bytes) {
  wire::Reader reader(bytes);
  std::vector<std::string> parts;
  reader.get(parts);
  if (reader.ok() && reader.at_end()) return parts;
  return failure(
      Code::malformed,
      "the reply to an exchange has a malformed list of parts: {} bytes, error at byte {}",
      bytes.size(), reader.offset());
}

std::uint64_t BarrierCalls::sequence_of(const Series& series) {
  const std::lock_guard lock(mutex_);
  return next_[series];
}

void BarrierCalls::passed(const Series& series, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& next = next_[series];
  next = std::max(next, sequence + 1);
}

Reply BarrierCalls::arrive(const Series& series, std::uint64_t sequence, Request request,
                           Duration timeout) {
  Reply reply = connection_->call(std::move(request), timeout);
  // A failure that the daemon has recorded is the outcome of this barrier for all ranks. After any
  // other failure the outcome is still open.
  if (!reply && reply.error().recorded) passed(series, sequence);
  return reply ? std::move(reply) : Reply(naming(series, reply.error()));
}

void BarrierCalls::barrier(const std::string& name, const BarrierOptions& options, Bound bound) {
  const Series series(Barrier::op.code, name, options.generation, options.rank);
  Barrier request;
  fill(request, name, options, std::move(bound));
  request.sequence = sequence_of(series);
  const std::uint64_t sequence = request.sequence;
  expect<Done>(arrive(series, sequence, std::move(request), options.timeout));
  passed(series, sequence);
}

std::vector<std::string> BarrierCalls::exchange(const std::string& name,
                                                std::vector<std::string> parts,
                                                const ExchangeOptions& options, Bound bound) {
  const Series series(Exchange::op.code, name, options.generation, options.rank);
  Exchange request;
  fill(request, name, options, std::move(bound));
  request.sequence = sequence_of(series);
  request.shape = static_cast<Shape>(options.shape);
  request.root = options.root;
  request.awaits_earlier = options.awaits_earlier;
  request.parts = std::move(parts);
  const std::uint64_t sequence = request.sequence;
  const auto fetch = [&](Exchange what) {
    return expect<Exchanged>(arrive(series, sequence, std::move(what), options.timeout));
  };
  // Requests for further chunks omit the parts, because the daemon has received them already.
  Exchange rest = request;
  rest.parts.clear();
  Exchanged chunk = fetch(std::move(request));
  Bytes bytes(chunk.chunk.view());
  while (bytes.size() < chunk.total) {
    rest.offset = bytes.size();
    chunk = fetch(rest);
    if (chunk.chunk.length == 0 || chunk.offset != rest.offset) {
      throw_failure(
          failure(Code::malformed,
                  "exchange \"{}\": requested the reply from byte {} of {}, but received {} bytes "
                  "from byte {}",
                  name, rest.offset, chunk.total, chunk.chunk.length, chunk.offset));
    }
    bytes += chunk.chunk.view();
  }
  Result<std::vector<std::string>> list = decode_parts(bytes);
  if (!list) throw_failure(list.error());
  // Called last: if anything above fails, the next call must repeat this exchange.
  passed(series, sequence);
  return std::move(*list);
}

}  // namespace c10dd::client
