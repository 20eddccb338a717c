// SPDX-License-Identifier: Apache-2.0
// One group: its members, the generation that they work in, and the forming of the next one.
// Life and words: protocol/membership.h. Pure; every method that changes something is told the
// revision and time, and the group is `dirty` until its owner has written its row.
//
// A generation forms (elastic): never with fewer than min; at once when max are here and every
// survivor of the last one has asked; else when last_call has passed since min were here. Who has
// lost its connection is waited for: it comes back or is lost within its grace. (quorum): see
// RendezvousPolicy.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/ranks.h"
#include "daemon/core/sessions.h"
#include "protocol/ops.h"

namespace c10dd::core {

/// Where and when something happens, and the rows that it makes.
struct Moment {
  Revision revision;
  TimePoint now;
  std::vector<Row>& rows;
};

/// That a notice names a member.
struct NoticeMark {
  std::uint64_t number = 0;
  bool acknowledged = false;
};
BOOST_DESCRIBE_STRUCT(NoticeMark, (), (number, acknowledged))

/// What is kept of a member; all of it is its row, except what the last section has.
struct GroupMember {
  enum class State : std::uint8_t { here, finished, left, lost };

  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::int64_t claimed_rank = -1;
  bool spare = false;
  std::uint64_t step = 0;
  bool failed = false;         ///< of a quorum's vote
  Revision joined = 0;         ///< order of joining
  bool asked = false;          ///< ever; then asked_in counts
  std::uint64_t asked_in = 0;  ///< the group's round when it asked for the next one
  State state = State::here;
  std::string ending;               ///< how it ended
  std::vector<NoticeMark> notices;  ///< that name it, while it is here; by number

  std::int64_t rank = -1;         ///< in the current generation
  std::int64_t former_rank = -1;  ///< likewise, but it has finished there and asks again
  bool present = false;           ///< has a connection
  std::string phase;              ///< of its newest progress report, as are the next two
  std::uint64_t at_step = 0;
  std::optional<TimePoint> stalls_at;
  bool stalled = false;
};
BOOST_DESCRIBE_STRUCT(GroupMember, (),
                      (host, pid, local_rank, device, domain, labels, claimed_rank, spare, step,
                       failed, joined, asked, asked_in, state, ending, notices))

/// A notice as it is stored: a deadline is a duration, counted anew after a restart. Whom it names
/// is in the rows of the members, so that one who acknowledges it, or goes, writes no row of all.
struct StoredNotice {
  std::uint64_t number = 0;
  Notice::Kind kind = Notice::Kind::drain;
  Duration deadline{0};
  std::string reason;

  std::size_t named = 0;  ///< members; counted
  std::size_t open = 0;   ///< of these, have not acknowledged it
};
BOOST_DESCRIBE_STRUCT(StoredNotice, (), (number, kind, deadline, reason))

/// The group's own row.
struct GroupFacts {
  RendezvousPolicy policy;
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  GroupPhase phase = GroupPhase::forming;
  std::string reason;
  std::uint32_t failures = 0;
  std::uint64_t news = 0;  ///< revision of the newest change that members are told
  std::uint64_t notices_made = 0;
  std::vector<StoredNotice> notices;
};
BOOST_DESCRIBE_STRUCT(GroupFacts, (),
                      (policy, round, generation, phase, reason, failures, news, notices_made,
                       notices))

/// The list row: who has which rank, and the list as members read it.
struct MemberList {
  std::vector<SessionId> sessions;
  std::vector<std::uint32_t> offsets;  ///< where each MemberInfo begins in `encoded`
  std::uint64_t digest = 0;
  Bytes encoded;
};
BOOST_DESCRIBE_STRUCT(MemberList, (), (sessions, offsets, digest, encoded))

/// Of who has which rank: what else is in the list changes with each round of a quorum.
std::uint64_t digest_of(const std::vector<SessionId>& sessions);

/// invalid_argument: numbers or times that no group may have.
Result<void> check_policy(const RendezvousPolicy& policy);

/// Of a generation's members.
struct Attendance {
  std::size_t here = 0;
  std::size_t missing = 0;  ///< lost or left
};

class Group {
 public:
  explicit Group(std::string name) : name_(std::move(name)) {}

  /// Asks for a place in a round newer than request.round. Fails with invalid_argument,
  /// size_mismatch, rank_taken or quota_exceeded; then nothing has changed.
  Result<void> join(const SessionId& id, const Session& session, const Join& request, Moment& at);
  /// The place that a join has got, if it has.
  std::optional<Joined> place(const SessionId& id, std::uint64_t after_round) const;

  /// No effect on who is no member, or has ended.
  void leave(const SessionId& id, Leave::Kind kind, const std::string& detail, Moment& at);
  void lose(const SessionId& id, const std::string& detail, Moment& at);
  /// It no longer waits for its join.
  void withdraw(const SessionId& id, const std::string& detail, Moment& at);
  void set_present(const SessionId& id, bool present);

  Result<std::uint64_t> notify(const Notify& request, Moment& at);
  Result<void> acknowledge(const SessionId& id, std::uint64_t notice, Moment& at);
  Result<void> progress(const SessionId& id, const Progress& report, Moment& at);

  /// Forms a generation if its time has come, takes out who did not leave in time, marks who has
  /// stalled. After every other call, and when next_deadline() has come.
  void consider(Moment& at);
  std::optional<TimePoint> next_deadline() const;

  // ---- what it knows
  const std::string& name() const { return name_; }
  const GroupFacts& facts() const { return facts_; }
  const std::map<SessionId, GroupMember>& members() const { return members_; }
  const GroupMember* find(const SessionId& id) const;
  /// Who has this rank now, or had it when it ended.
  const GroupMember* holder(Rank rank) const;
  /// Whether it has asked for a place and has none yet.
  bool waits(const SessionId& id) const;
  /// Whether somebody of the generation is here no more.
  bool has_ended_members() const { return counts_.of_list < size(); }
  Attendance attendance() const { return {counts_.of_list, size() - counts_.of_list - finished_}; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(list_->sessions.size()); }
  const std::vector<SessionId>& sessions() const { return list_->sessions; }
  /// Of the newest change to the list or the news.
  Revision changed() const { return changed_; }
  /// Made once for all who are told of one change; what is left of a deadline is as of now.
  const GroupNews& news(TimePoint now) const;
  Result<MemberPage> page(const ReadMembers& request) const;
  /// stale_generation, naming the newest.
  Failure stale(std::uint64_t generation) const;
  /// Why the generation is over, naming the lost ranks.
  Failure broken() const;
  /// "2 of at least 4 members have joined ...", and who has not; for joins that time out.
  Failure shortage() const;
  MissingRank describe(Rank rank) const;

  /// Members that have ended since this was last asked.
  std::vector<SessionId> take_ended() { return std::exchange(ended_, {}); }

  // ---- rows, of which restore() and resume() refuse what this class cannot have written:
  // malformed, naming the group
  Row row() const;
  Result<void> restore(GroupFacts facts);
  Result<void> restore(const SessionId& id, GroupMember member);
  Result<void> restore(MemberList list);
  /// After the last row of a job of this revision. Nobody is present, every time starts in full.
  Result<void> resume(Revision newest, TimePoint now);

  bool dirty = false;               ///< its row must be written
  bool decided = false;             ///< a generation was formed since this was last cleared
  bool ended = false;               ///< a generation has ended since this was last cleared
  bool told = false;                ///< the news changed since this was last cleared
  std::vector<Rank> newly_stalled;  ///< since this was last cleared

 private:
  struct Counts {
    std::size_t alive = 0;          ///< here
    std::size_t asking = 0;         ///< of them
    std::size_t asking_spares = 0;  ///< of those
    std::size_t asking_away = 0;    ///< of those: without a connection
    std::size_t asking_old = 0;     ///< of those: in the list
    std::size_t expected = 0;       ///< in the list and here, but not asking
    std::size_t claims = 0;         ///< of the asking
    std::size_t of_list = 0;        ///< in the list and here
  };

  bool asks(const GroupMember& m) const { return m.asked && m.asked_in == facts_.round; }
  void count(const GroupMember& m, int by);
  template <class F>
  void change(GroupMember& member, F&& f);
  Result<void> check(const SessionId& id, const Join& request) const;
  void come_back(GroupMember& member);
  void end(const SessionId& id, GroupMember::State state, const std::string& detail, Moment& at);
  void break_up(std::string reason, bool failed, Moment& at);
  void tell(Moment& at);
  void finish_if_done(Moment& at);
  bool whole_launch_waits() const;
  bool closes_elastic(TimePoint now);
  bool closes_quorum(TimePoint now);
  bool last_call_over(TimePoint now);
  std::uint32_t wanted() const;
  std::size_t usable() const;
  std::uint32_t waiting() const;
  void form(Moment& at);
  std::vector<SessionId> apply(const RankPlan& plan, const std::vector<SessionId>& asking,
                               Moment& at);
  void encode_list(const std::vector<std::int64_t>& previous);
  void forget_ended(Moment& at);
  void put(const SessionId& id, const GroupMember& member, Moment& at) const;
  void end_notices(Moment& at);
  void add_notices(GroupNews& news) const;
  void forget_noticed(GroupMember& member);
  void mark_stalled(Moment& at);
  GroupNews make_news() const;
  std::vector<Rank> awaited() const;
  Failure misfit(const std::string& what) const;
  Result<void> check_facts(Revision newest) const;
  Result<void> check_members(Revision newest) const;
  Result<void> check_claims() const;
  Result<void> check_list() const;
  Result<void> count_notices();

  std::string name_;
  GroupFacts facts_;
  std::map<SessionId, GroupMember> members_;
  std::shared_ptr<MemberList> list_ = std::make_shared<MemberList>();
  std::shared_ptr<const Bytes> encoded_ = std::make_shared<const Bytes>();
  Counts counts_;
  Revision changed_ = 0;
  std::size_t finished_ = 0;                      // members of the generation
  mutable std::optional<GroupNews> newest_news_;  // none once it is no longer true
  std::map<std::int64_t, std::size_t> claims_;    // claimed ranks of those who ask
  std::vector<SessionId> ended_;
  std::optional<TimePoint> last_call_;                     // when it ends
  std::map<std::uint64_t, TimePoint> notices_end_;         // by number
  std::set<std::pair<TimePoint, SessionId>> stall_times_;  // of members with a limit
  bool has_row_ = false;                                   // its own row was restored
};

/// The rows of a group.
Bytes group_key(char kind, const std::string& name);
Bytes member_key(const std::string& name, const SessionId& id);

}  // namespace c10dd::core
