// SPDX-License-Identifier: Apache-2.0
// Wait-fors: who waits for whom in a job, and what is known of each. They are the input of
// diagnose() (diagnosis.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/types.h"

namespace c10dd {

/// What is known of a rank of a job or, where its rank is not known, of a process.
struct RankFacts {
  enum class State : std::uint8_t {
    live,             ///< connected, and heard of
    slow,             ///< connected, but it has not reported progress within the time it promised
    never_connected,  ///< no process with this rank has connected
    not_back,         ///< the same, since the daemon loaded the job: it may have come before
    closed,           ///< its connection has closed; it may return
    silent,           ///< connected, but its heartbeats stopped
    no_answer,        ///< its host does not answer
    left,             ///< it has closed its session, or its connections
    gone,             ///< it is lost, or its session has expired; see `doing`
  };

  std::optional<Rank> rank = {};  ///< in the job; empty: not known
  std::string host = {};          ///< empty: not known
  std::uint64_t pid = 0;          ///< 0: not known
  State state = State::live;
  std::string doing = {};  ///< "in phase backward of step 12", or how it ended; may be empty
  /// All its threads that issue operations of process groups wait for the end of one.
  bool blocked = false;
  /// It has called the daemon from more threads at the same time than those that wait now.
  bool calls_more = false;
  /// It is silent, but not yet for its ttl.
  bool may_return = false;

  /// Returns whether it will not come by itself.
  bool is_lost() const { return state >= State::closed; }
};

/// A call that some ranks have issued where other ranks have issued another one.
struct IssuedCall {
  std::string call;                ///< "all_reduce of 1000 float32 sum"
  std::vector<std::size_t> ranks;  ///< places, ascending; some may have ended it
};

/// Ranks that wait for other ranks. All of `waiting` need all of `awaited`.
struct WaitFor {
  enum class Kind : std::uint8_t {
    launch,   ///< the ranks of a launch that have connected wait for the others
    group,    ///< members wait until a generation forms
    barrier,  ///< also an exchange
    key,      ///< also a counter
    collective,
    receive,
    send,
  };

  Kind kind = Kind::key;
  /// `barrier "epoch" (generation 0, sequence 7)`; of a key a sentence: `key "x" is not set`.
  std::string what = {};
  TimePoint since = {};  ///< when the first of them began to wait
  /// Places in the list of RankFacts, ascending. A lost rank counts as one that does not wait; if
  /// it is in a collective, it holds up the others, who need it until the end.
  std::vector<std::size_t> waiting = {};
  std::vector<std::size_t> awaited = {};  ///< ascending, none of `waiting`
  /// Of an operation of a process group: those of `awaited` that have no thread which may come to
  /// it, because all that have issued operations of the group wait for other ranks, or because they
  /// have issued it already.
  std::vector<std::size_t> held = {};
  std::size_t unnamed = 0;  ///< how many more are awaited, of whom nothing is known
  bool open = false;        ///< others may be awaited, of whom nothing is known, not even how many
  std::string lost = {};    ///< why it cannot end well, to be read after `what`; empty: it can
  std::vector<IssuedCall> issued = {};  ///< of a collective: two or more if its ranks disagree
  /// Of a collective that all ranks have issued: those whose backend has not begun with it, which
  /// are in `waiting`, and how many ranks have ended it.
  std::vector<std::size_t> queued = {};
  std::size_t ended = 0;
  /// It may go on without those that are lost: most ranks of a launch have left, or a group has
  /// enough members without them.
  bool may_recover = false;
  /// Of a message: the other rank has gone on without it, or is blocked and cannot come to it.
  bool unsent = false;
  /// Of a collective or message: the random number of its process group. 0: of no process group.
  std::uint64_t process_group = 0;
  /// A circle that contains it may end by itself, because a rank has only queued the operation, or
  /// because some ranks need the root only.
  bool weak = false;
  /// It is known which ranks wait in it, but not for which ranks. It is never the cause, and
  /// neither are the ranks that wait.
  bool uncertain = false;
  Duration usual{0};       ///< how long it usually takes; 0: not known
  bool confirmed = false;  ///< all who wait have told it twice, so it was not just about to end
};

/// Ranks of a process group that do not do what the others do, although all of them go on.
struct Deviation {
  enum class Kind : std::uint8_t {
    diverged,   ///< they have issued other collectives
    straggler,  ///< they come late to the collectives, so the others wait for them
  };

  Kind kind = Kind::diverged;
  std::string group = {};  ///< `group "dp"`
  std::uint64_t process_group = 0;
  TimePoint since = {};
  std::vector<std::size_t> ranks = {};   ///< those that deviate; places, ascending
  std::vector<std::size_t> others = {};  ///< the others of the group; ascending
  /// Of `diverged`: the first difference is in the collectives from `from` up to, but without,
  /// `to`.
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

}  // namespace c10dd
