// SPDX-License-Identifier: Apache-2.0
#include "client/core/proxy_places.h"

namespace c10dd::client {

void ProxyPlaces::serve(Number client, TimePoint now) {
  ++served_;
  silent_.emplace(client, now);
}

ProxyPlaces::Entry ProxyPlaces::arrive(Number client, TimePoint now) {
  if (served_ < places_ && waiting_.empty()) {
    serve(client, now);
    return Entry::served;
  }
  if (waiting_.size() >= silent_.size()) return Entry::refused;
  waiting_.push_back(client);
  return Entry::waits;
}

void ProxyPlaces::leave(Number client) {
  --served_;
  silent_.erase(client);
}

std::optional<ProxyPlaces::Move> ProxyPlaces::next(TimePoint now) {
  if (waiting_.empty()) return std::nullopt;
  const Number first = waiting_.front();
  if (served_ < places_) {
    waiting_.pop_front();
    serve(first, now);
    return Move{Move::Kind::serve, first};
  }
  if (silent_.empty()) {
    waiting_.pop_front();
    return Move{Move::Kind::refuse, first};
  }
  if (const auto oldest = gives_way(now)) {
    silent_.erase(*oldest);
    return Move{Move::Kind::close, *oldest};
  }
  return std::nullopt;
}

std::optional<TimePoint> ProxyPlaces::next_deadline() const {
  if (waiting_.empty() || silent_.empty()) return std::nullopt;
  return silent_.begin()->second + kSilence;
}

/// A client gets its place in the order of arrival, so the first number is silent for longest.
std::optional<ProxyPlaces::Number> ProxyPlaces::gives_way(TimePoint now) const {
  if (silent_.empty() || now < silent_.begin()->second + kSilence) return std::nullopt;
  return silent_.begin()->first;
}

}  // namespace c10dd::client
