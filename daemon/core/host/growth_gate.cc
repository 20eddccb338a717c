// SPDX-License-Identifier: Apache-2.0
// Computes how much a single request can make the state grow, and composes the texts of refusals.
#include "daemon/core/host/growth_gate.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kSmallExchange = 64 * 1024;  // bytes of all parts

Growth of(const Transact& transact) {
  const bool removes =
      std::all_of(transact.actions.begin(), transact.actions.end(),
                  [](const Action& action) { return action.kind == Action::Kind::remove; });
  return removes ? Growth::none : Growth::much;
}

Growth of(const Exchange& exchange) {
  std::size_t bytes = 0;
  for (const Bytes& part : exchange.parts) bytes += part.size();
  return bytes <= kSmallExchange ? Growth::little : Growth::much;
}

template <class Op>
Growth of(const Op&) {
  const bool removal = Op::op.kind == OpKind::write && Op::op.growth == Growth::none;
  return removal && planted(Planted::removal_refused) ? Growth::much : Op::op.growth;
}

}  // namespace

Growth growth_of(const Request& request) {
  return std::visit([](const auto& op) { return of(op); }, request);
}

void GrowthGate::watch(std::string what, std::uint64_t reserve, std::uint64_t minimum) {
  what_ = std::move(what);
  reserve_ = reserve;
  minimum_ = minimum;
}

void GrowthGate::set_free(std::uint64_t free, std::uint64_t needed) {
  free_ = free;
  needed_ = needed;
  written_ = 0;
}

std::uint64_t GrowthGate::free() const {
  const std::uint64_t free = free_;
  return free - std::min<std::uint64_t>(free, written_);
}

/// Returns how many bytes must stay free when the state grows. This is the larger of two numbers:
/// the reserve, and the bytes that the engine needs to reclaim space. The engine may have to
/// rewrite the bytes that were written since set_free(), so the second number includes them.
std::uint64_t GrowthGate::kept() const {
  const std::uint64_t needed = needed_;
  return std::max(reserve_, needed == 0 ? 0 : needed + written_);
}

DiskRoom GrowthGate::room() const {
  const std::uint64_t now = free();
  if (now < minimum_) return DiskRoom::none;
  return now < kept() ? DiskRoom::little : DiskRoom::enough;
}

std::string GrowthGate::disk_note() const {
  const DiskRoom room = this->room();
  if (room == DiskRoom::enough) return {};
  const bool none = room == DiskRoom::none;
  return format("the {} has {} bytes free, but {} need {}; remove keys, or free space on that disk",
                what_, free(), none ? "all changes except removals" : "writes that add data",
                none ? minimum_ : kept());
}

std::optional<Failure> GrowthGate::refuses(const Request& request, bool stored) const {
  const DiskRoom room = stored ? this->room() : DiskRoom::enough;
  const std::uint64_t counted = memory_.counted();
  if (room == DiskRoom::enough && counted < memory_.max_bytes()) return std::nullopt;
  const Growth growth = growth_of(request);
  const Growth refused = room == DiskRoom::none ? Growth::little : Growth::much;
  if (room != DiskRoom::enough && growth >= refused) return failure(Code::disk_full, disk_note());
  if (growth != Growth::much || counted < memory_.max_bytes()) return std::nullopt;
  return failure(Code::quota_exceeded,
                 "all jobs together hold {} bytes, limit {}; remove keys, or raise --max-bytes",
                 counted, memory_.max_bytes());
}

}  // namespace c10dd::core
