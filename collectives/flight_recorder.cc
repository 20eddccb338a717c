// SPDX-License-Identifier: Apache-2.0
#include "collectives/flight_recorder.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "collectives/flight_log.h"

namespace c10dd::collectives {
namespace {

// A place has the low bits of the sequence, then those of the ticket.
constexpr int kTicketBits = 48;
constexpr std::uint64_t kTicketMask = (std::uint64_t{1} << kTicketBits) - 1;

bool is_off() {
  const char* const word = std::getenv("C10DD_FLIGHT");
  return word != nullptr && std::string_view(word) == "off";
}

bool is_message(const CollectiveCall& call) { return info_of(call.operation.collective).message; }

}  // namespace

template <std::size_t N>
void FlightRecorder::Tickets<N>::put(std::uint64_t sequence, std::uint64_t ticket) noexcept {
  places[sequence % N].store(sequence << kTicketBits | (ticket & kTicketMask),
                             std::memory_order_relaxed);
  issued.store(sequence + 1, std::memory_order_relaxed);
}

template <std::size_t N>
std::uint64_t FlightRecorder::Tickets<N>::of(std::uint64_t sequence) const noexcept {
  const std::uint64_t place = places[sequence % N].load(std::memory_order_relaxed);
  const bool is_same = (place ^ sequence << kTicketBits) >> kTicketBits == 0;
  return is_same ? place & kTicketMask : 0;
}

FlightRecorder::FlightRecorder(std::string job)
    : job_(std::move(job)), log_(is_off() ? nullptr : FlightLog::of_this_process()) {}

FlightRecorder::~FlightRecorder() {
  if (log_ && group_ != 0) log_->remove(group_);
}

void FlightRecorder::opened(const World& world) noexcept {
  if (!log_) return;
  try {
    group_ = log_->add({job_, world});
  } catch (const std::exception&) {
    // Without memory nothing is recorded.
  }
}

void FlightRecorder::identify(std::uint64_t process_group) {
  if (group_ != 0) log_->identify(group_, process_group);
}

void FlightRecorder::enqueued(const CollectiveCall& call) noexcept {
  if (group_ == 0) return;
  const std::uint64_t sequence = call.operation.sequence;
  if (is_message(call)) {
    const auto others = collectives_.issued.load(std::memory_order_relaxed);
    messages_.put(sequence, log_->ring().issue(group_, call, others));
  } else {
    const auto others = messages_.issued.load(std::memory_order_relaxed);
    collectives_.put(sequence, log_->ring().issue(group_, call, others));
  }
}

void FlightRecorder::update(const CollectiveCall& call) noexcept {
  if (group_ == 0) return;
  const std::uint64_t sequence = call.operation.sequence;
  const bool message = is_message(call);
  std::uint64_t ticket = message ? messages_.of(sequence) : collectives_.of(sequence);
  // More operations than places have been issued since.
  if (ticket == 0) ticket = log_->ring().find(group_, sequence, message).value_or(0);
  if (ticket != 0) log_->ring().update(ticket, call);
}

std::vector<std::string> FlightRecorder::dump(const std::string& why) noexcept {
  try {
    if (is_off()) return {};
    const char* const folder = std::getenv("C10DD_FLIGHT_DIR");
    const bool chosen = folder != nullptr && *folder != '\0';
    return FlightLog::of_this_process()->dump(chosen ? folder : "/tmp", why);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c10dd: no flight record was written: %s\n", error.what());
    return {};
  }
}

}  // namespace c10dd::collectives
