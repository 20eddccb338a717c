// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/caused_log.h"

#include <algorithm>
#include <utility>

#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

constexpr std::string_view kOthers = "\n";  // the cause of those that have no place in the list

}  // namespace

std::optional<LogPaces::Skipped> LogPaces::next(std::string_view cause, std::string_view event,
                                                Time now) {
  const std::lock_guard lock(mutex_);
  forget(now);
  Cause& by = cause_of(cause.substr(0, limits::kNameBytes), now);
  by.asked = now;
  auto found = by.events.find(event);
  if (found == by.events.end()) found = by.events.try_emplace(std::string(event)).first;
  Event& of = found->second;
  const bool writes =
      of.bucket.has(kOfKind, now) && by.bucket.has(kOfCause, now) && all_.has(kOfAll, now);
  if (!writes) {
    ++of.skipped;
    return std::nullopt;
  }
  of.bucket.take(kOfKind, now);
  by.bucket.take(kOfCause, now);
  all_.take(kOfAll, now);
  return Skipped{std::exchange(of.skipped, 0), std::exchange(forgotten_, 0)};
}

LogPaces::Cause& LogPaces::cause_of(std::string_view name, Time now) {
  const auto found = causes_.find(name);
  if (found != causes_.end()) return found->second;
  if (causes_.size() < kCauses) return causes_[std::string(name)];
  forget_at_ = now;  // the next call looks for a place
  return causes_[std::string(kOthers)];
}

/// Now and then forgets the causes that have wanted no line for a while.
void LogPaces::forget(Time now) {
  if (now < forget_at_) return;
  forget_at_ = now + kForgotten / 4;
  std::erase_if(causes_, [&](const auto& entry) {
    if (now - entry.second.asked < kForgotten) return false;
    for (const auto& [name, event] : entry.second.events) forgotten_ += event.skipped;
    return true;
  });
}

void LogPaces::clear() {
  const std::lock_guard lock(mutex_);
  causes_.clear();
  all_ = {};
  forget_at_ = {};
  forgotten_ = 0;
}

std::size_t LogPaces::causes() const {
  const std::lock_guard lock(mutex_);
  return causes_.size();
}

LogPaces& log_paces() {
  static LogPaces paces;
  return paces;
}

namespace detail {

std::string event_of(LogLevel level, std::string_view text) {
  const auto number = static_cast<char>('0' + static_cast<int>(level));
  return number + std::string(text.substr(0, text.find(' ')));
}

void write_caused(LogLevel level, std::string line, const LogPaces::Skipped& skipped) {
  if (skipped.others > 0) log_as(level, "event=log_lines_skipped count={}", skipped.others);
  if (skipped.alike > 0) line += c10dd::format(" skipped={}", skipped.alike);
  write_line(level, line);
}

}  // namespace detail
}  // namespace c10dd::daemon
