// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/group_crowd.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

#include "protocol/limits.h"
#include "tests/bench/native_frames.h"

namespace c10dd::bench {
namespace {

constexpr std::chrono::minutes kLong{10};  // longer than any scenario awaits something
constexpr unsigned kRanksOfAHost = 8;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error("group: " + what); }

void must_be(bool good, const std::string& what) {
  if (!good) fail(what);
}

}  // namespace

Join join_of(const std::string& group, unsigned size) {
  Join join;
  join.group = group;
  join.policy.min = join.policy.max = size;
  join.timeout = kLong;
  return join;
}

void live_as_member(const Address& daemon, const Join& join,
                    const std::function<void()>& prepare) try {
  prepare();
  Line line(daemon);
  Bytes out(native::kMagic);
  native::RequestHeader header;
  header.channel = 1;
  native::encode_request(out, header, new_session());
  header.sequence = 1;
  native::encode_request(out, header, join);
  line.send(out);
  Bytes ping;
  native::encode_request(ping, {0, 0, 1, 0, 0}, Ping{});
  for (;;) {
    ::poll(nullptr, 0, static_cast<int>(limits::kHeartbeatInterval.count()));
    line.send(ping);
    line.receive_some([](std::string_view in) {
      const auto frame = cut_success(in);
      return frame ? frame->size : 0;
    });
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "c10dd-bench: a member: %s\n", e.what());
  ::_exit(1);  // nothing that was the parent's may be destroyed here
}

GroupCrowd::GroupCrowd(const Address& daemon, unsigned connections, unsigned members, unsigned size)
    : members_(members),
      size_(size),
      group_("bench-" + std::to_string(random_number())),
      crowd_(daemon, connections, members),
      ranks_(members) {
  crowd_.start_to_beat();
}

void GroupCrowd::join() {
  Join join = join_of(group_, size_);
  join.round = newest_.round;
  crowd_.send(crowd_.encode(0, members_, [&](unsigned member) {
    join.local_rank = static_cast<std::int32_t>(member % kRanksOfAHost);
    return join;
  }));
  std::optional<Joined> first;
  crowd_.receive_each([&](unsigned member, const ReplyBody& reply) {
    const auto& joined = std::get<Joined>(reply);
    if (!first) first = joined;
    must_be(joined.generation == first->generation && joined.digest == first->digest,
            "its members are in different generations");
    ranks_.at(member) = joined.rank;
  });
  must_be(first->size == size_, "it has formed with " + std::to_string(first->size) + " members");
  newest_ = *first;
  barriers_ = 0;
}

void GroupCrowd::join_again() {
  Join join = join_of(group_, size_);
  join.round = newest_.round - 1;
  crowd_.send(crowd_.encode(0, members_, [&](unsigned member) {
    join.local_rank = static_cast<std::int32_t>(member % kRanksOfAHost);
    return join;
  }));
  crowd_.receive_each([&](unsigned member, const ReplyBody& reply) {
    const auto& joined = std::get<Joined>(reply);
    must_be(joined.generation == newest_.generation && joined.rank == ranks_.at(member),
            "a member has another place than before");
  });
}

void GroupCrowd::must_be_whole() {
  crowd_.send(crowd_.encode(0, members_, [&](unsigned) { return WatchGroup{group_, 0, kLong}; }));
  crowd_.receive_each([&](unsigned, const ReplyBody& reply) {
    const auto& status = std::get<GroupStatus>(reply);
    const std::size_t lost = ranks_of(status.lost).size();
    must_be(status.phase == GroupPhase::formed && status.generation == newest_.generation,
            "its generation has ended, " + std::to_string(lost) +
                " members are lost: " + status.reason);
    must_be(status.size == size_ && lost == 0, std::to_string(lost) + " members are lost");
  });
}

void GroupCrowd::watch() {
  const WatchGroup follow{group_, newest_.status, kLong};
  crowd_.send(crowd_.encode(0, members_, [&](unsigned) { return follow; }));
  crowd_.settle();
}

Histogram GroupCrowd::await_loss(Clock::time_point start) {
  Histogram told;
  crowd_.receive_each([&](unsigned, const ReplyBody& reply) {
    const auto& status = std::get<GroupStatus>(reply);
    must_be(status.phase == GroupPhase::broken && status.lost.size() == 1,
            "there is other news than the loss of one member: " + status.reason);
    told.add((Clock::now() - start).count());
  });
  return told;
}

std::vector<Bytes> GroupCrowd::arrivals(unsigned from, unsigned to) {
  Barrier barrier;
  barrier.name = barrier.group = group_;
  barrier.generation = newest_.generation;
  barrier.sequence = barriers_;
  barrier.world_size = size_;
  barrier.timeout = kLong;
  return crowd_.encode(from, to, [&](unsigned member) {
    barrier.rank = ranks_.at(member);
    return barrier;
  });
}

GroupCrowd::Met GroupCrowd::meet(bool latecomer) {
  const unsigned early = latecomer ? members_ - 1 : 0;
  if (latecomer) {
    crowd_.send(arrivals(0, early));
    crowd_.settle();
  }
  const std::vector<Bytes> out = arrivals(early, members_);
  ++barriers_;
  const Clock::time_point start = Clock::now();
  crowd_.send(out);
  const Clock::time_point sent = Clock::now();
  crowd_.receive_as_they_come([](std::size_t) {});
  const Clock::time_point end = Clock::now();
  return {end - start, end - sent};
}

}  // namespace c10dd::bench
