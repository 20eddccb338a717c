// SPDX-License-Identifier: Apache-2.0
// Answers the operations on keys. put() and remove() write the row of a key, add the change to the
// history for watches, and signal the requests that wait for the key.
#pragma once

#include <optional>
#include <span>

#include "daemon/core/keys/lifetimes.h"
#include "daemon/core/torch/launch_ranks.h"
#include "daemon/core/torch/reservations.h"
#include "daemon/core/waiting/waits.h"

namespace c10dd::core {

class KeyOps {
 public:
  KeyOps(KeySpace& keys, Lifetimes& lifetimes, History& history, const Queues& queues,
         Reservations& reservations, LaunchRanks& launch, Waits& waits)
      : keys_(keys),
        lifetimes_(lifetimes),
        history_(history),
        queues_(queues),
        reservations_(reservations),
        launch_(launch),
        waits_(waits) {}

  OptionalReply on(Step& step, const Set& set);
  OptionalReply on(Step& step, const Check& check);
  OptionalReply on(Step& step, const Add& add);
  OptionalReply on(Step& step, const CompareSet& compare);
  OptionalReply on(Step& step, const Remove& request);
  OptionalReply on(Step& step, const MultiSet& set);
  OptionalReply on(Step& step, const List& list);
  OptionalReply on(Step& step, const Count& count);
  OptionalReply on(Step& step, const Append& append);
  OptionalReply on(Step& step, const RemovePrefix& request);
  OptionalReply on(Step& step, const Get& get);
  OptionalReply on(Step& step, const Wait& wait);
  OptionalReply on(Step& step, const MultiGet& get);
  OptionalReply on(Step& step, const ReadValues& read);
  OptionalReply on(Step& step, const WaitCounter& wait);
  OptionalReply on(Step& step, const Watch& asked);

  /// Sets a key. Without `expiry`, the expiry of the key does not change.
  void put(Step& step, std::string_view key, Blob value, const std::optional<Expiry>& expiry) {
    put(step, keys_.place(key), key, std::move(value), expiry);
  }
  /// Removes a key. Returns whether it existed.
  bool remove(Step& step, std::string_view key);

  /// Removes the keys whose time to live is over. Forgets the watched keys and prefixes whose last
  /// watch request is older than History::kForgottenAfter.
  void tick(Step& step);

 private:
  void put(Step& step, const KeySpace::Place& place, std::string_view key, Blob value,
           const std::optional<Expiry>& expiry);
  void note(Step& step, Change&& change);
  template <class Op>
  OptionalReply wait_for(Step& step, const Op& op);

  KeySpace& keys_;
  Lifetimes& lifetimes_;
  History& history_;
  const Queues& queues_;
  Reservations& reservations_;
  LaunchRanks& launch_;
  Waits& waits_;
};

}  // namespace c10dd::core
