// SPDX-License-Identifier: Apache-2.0
// MessageMatcher: decides which recv() gets which message, for one rank.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "collectives/operation.h"

namespace c10dd::collectives {

/// Keeps the receives that wait for a message, and the messages that wait for a receive. A receive
/// gets the message that arrived first among those that it accepts, and a message goes to the
/// receive that was posted first among those that accept it. `Offer` has the fields `source` and
/// `tag`. `Receive` has a field `operation`, a pointer to an Operation. Not thread-safe.
template <class Offer, class Receive>
class MessageMatcher {
 public:
  /// Adds a receive, or returns the message that it gets.
  std::optional<Offer> post(Receive receive) {
    const auto found = std::ranges::find_if(
        offers_, [&](const Offer& offer) { return accepts(*receive.operation, offer); });
    if (found != offers_.end()) return take(offers_, found);
    receives_.push_back(std::move(receive));
    return std::nullopt;
  }

  /// Returns the receive that gets this message, or null if none accepts it. The caller must then
  /// call keep().
  std::optional<Receive> offer(const Offer& offer) {
    const auto found = std::ranges::find_if(
        receives_, [&](const Receive& receive) { return accepts(*receive.operation, offer); });
    if (found == receives_.end()) return std::nullopt;
    return take(receives_, found);
  }

  /// Keeps a message for which offer() has returned null.
  void keep(Offer offer) { offers_.push_back(std::move(offer)); }

  const std::deque<Offer>& offers() const { return offers_; }  ///< in the order of their arrival
  /// In the order in which they were posted.
  const std::deque<Receive>& receives() const { return receives_; }

 private:
  static bool accepts(const Operation& receive, const Offer& offer) {
    return (receive.peer == kAnyRank || receive.peer == offer.source) &&
           (receive.tag == kAnyTag || receive.tag == offer.tag);
  }

  template <class T>
  static T take(std::deque<T>& from, typename std::deque<T>::iterator at) {
    T taken = std::move(*at);
    from.erase(at);
    return taken;
  }

  std::deque<Offer> offers_;
  std::deque<Receive> receives_;
};

}  // namespace c10dd::collectives
