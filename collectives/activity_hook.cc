// SPDX-License-Identifier: Apache-2.0
// All ranks set their marks at the same numbers of collectives, so that their marks can be
// compared. The distance of two marks follows the pace of the collectives, so that there are few
// marks.
#include "collectives/activity_hook.h"

#include <algorithm>

#include "collectives/agreement.h"

namespace c10dd::collectives {
namespace {

constexpr std::uint64_t kHashOfNothing = 0xcbf29ce484222325u;  // FNV-1a, by operation

std::uint64_t hash_with(std::uint64_t hash, const Operation& operation) {
  return (hash ^ hash_of(operation)) * 0x100000001b3u;
}

Duration::rep number_of(CollectiveCall::Clock::time_point at) {
  return Duration(at.time_since_epoch()).count();
}

bool waits_for_all(const OperationInfo& info) { return info.root == Root::none && !info.message; }

}  // namespace

ActivityHook::ActivityHook() : hash_(kHashOfNothing) {}

void ActivityHook::enqueued(const CollectiveCall& call) noexcept {
  threads_.note();
  operations_of(call).issue(call);
  if (!info_of(call.operation.collective).message) add_to_hash(call.operation);
}

void ActivityHook::begun(const CollectiveCall& call) noexcept { operations_of(call).begin(call); }

void ActivityHook::finished(const CollectiveCall& call) noexcept {
  const std::uint64_t ended = operations_of(call).end(call);
  note_duration(call);
  if (info_of(call.operation.collective).message) return;
  const Duration since_paced{number_of(call.finished) - paced_at_.load(std::memory_order_relaxed)};
  const bool is_slow = since_paced > kMarksSlow && exponent_.load(std::memory_order_relaxed) > 0;
  if (is_slow || is_mark(ended)) mark_time(ended, call.finished);
}

// Called in the order of the sequences, by one thread at a time.
void ActivityHook::add_to_hash(const Operation& operation) noexcept {
  hash_ = hash_with(hash_, operation);
  const std::uint64_t issued = operation.sequence + 1;
  if (!is_mark(issued)) return;
  hash_marks_[next_hash_mark_++ % kMarks].write({issued, hash_});
}

void ActivityHook::note_duration(const CollectiveCall& call) noexcept {
  if (call.begun == Clock::time_point{}) return;
  const Operation& operation = call.operation;
  if (waits_for_all(info_of(operation.collective))) {
    waited_.fetch_add(Duration(call.finished - call.begun).count(), std::memory_order_relaxed);
  }
  if (call.outcome != Code::ok) return;
  // A moving average. Of two threads that add to it at once, one may be ignored.
  constexpr Duration::rep kWeight = 8;
  auto& usual = usual_[static_cast<std::size_t>(operation.collective)];
  const Duration::rep before = usual.load(std::memory_order_relaxed);
  const Duration::rep took =
      std::max<Duration::rep>(Duration(call.finished - call.enqueued).count(), 1);
  usual.store(before == 0 ? took : before + (took - before) / kWeight, std::memory_order_relaxed);
}

// Changes the power of two if the marks come too fast or too slowly, and adds a mark if `ended` is
// its multiple. Does nothing while another thread does this: then a mark is missing.
void ActivityHook::mark_time(std::uint64_t ended, Clock::time_point now) noexcept {
  if (marking_.exchange(true, std::memory_order_acquire)) return;
  const unsigned exponent = exponent_.load(std::memory_order_relaxed);
  const bool is_due = is_mark(ended);
  if (is_due) {
    time_marks_[next_time_mark_++ % kMarks].write(
        {ended, static_cast<std::uint64_t>(number_of(now)),
         static_cast<std::uint64_t>(waited_.load(std::memory_order_relaxed))});
  }
  const Duration::rep paced_at = paced_at_.load(std::memory_order_relaxed);
  if (paced_at != 0 && ended > paced_sequence_) {
    const auto passed = static_cast<double>(number_of(now) - paced_at);
    const auto count = static_cast<double>(ended - paced_sequence_);
    const double period = passed / count * static_cast<double>(std::uint64_t{1} << exponent);
    if (is_due && period < static_cast<double>(kMarksFast.count())) {
      exponent_.store(exponent + 1, std::memory_order_relaxed);
    } else if (exponent > 0 && period > static_cast<double>(kMarksSlow.count())) {
      exponent_.store(exponent - 1, std::memory_order_relaxed);
    }
  }
  paced_at_.store(number_of(now), std::memory_order_relaxed);
  paced_sequence_ = ended;
  marking_.store(false, std::memory_order_release);
}

client::ReadGroup ActivityHook::read() const {
  client::ReadGroup group;
  GroupActivity& activity = group.activity;
  const auto add = [&](const UnfinishedOperations& operations) {
    UnfinishedOperations::Seen seen = operations.read();
    if (seen.oldest) {
      UnfinishedOperation& oldest = seen.oldest->operation;
      const auto& usual = usual_[static_cast<std::size_t>(seen.oldest->collective)];
      oldest.usual = Duration(usual.load(std::memory_order_relaxed));
      group.timeout = std::min(group.timeout, seen.oldest->timeout);
      activity.oldest.push_back(std::move(oldest));
    }
    if (seen.ended) group.ended = std::move(seen.ended);
    return seen.counts;
  };
  activity.collectives = add(collectives_);
  activity.messages = add(messages_);
  group.blocked_in = threads_.all_wait();
  for (const HashRecord& record : hash_marks_) {
    if (const auto mark = record.read()) activity.hash_marks.push_back({(*mark)[0], (*mark)[1]});
  }
  for (const TimeRecord& record : time_marks_) {
    const auto mark = record.read();
    if (!mark) continue;
    const auto duration = [](std::uint64_t word) {
      return Duration(static_cast<Duration::rep>(word));
    };
    activity.time_marks.push_back({(*mark)[0], duration((*mark)[1]), duration((*mark)[2])});
  }
  std::ranges::sort(activity.hash_marks, {}, &HashMark::sequence);
  std::ranges::sort(activity.time_marks, {}, &TimeMark::sequence);
  return group;
}

}  // namespace c10dd::collectives
