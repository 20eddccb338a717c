// SPDX-License-Identifier: Apache-2.0
// A turn in the order of client/internal/connection.cc: time, calls, socket, bytes out, replies,
// dialling.
#include "tests/sim/client.h"

#include <algorithm>

#include "tests/sim/access_story.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kDialPatience = milliseconds(2500);
constexpr Duration kLimit = seconds(20);  // the time-out of calls that have none of their own

client::CoreOptions options_of(const Client::Identity& identity, const Swarm& swarm,
                               Random& random) {
  client::CoreOptions options;
  options.addresses.clear();
  for (unsigned i = 0; i < swarm.daemons; ++i) options.addresses.push_back(address_of(i));
  options.seed = random.next();
  options.hello.session = {random.next(), random.next()};
  options.hello.job = identity.job;
  options.hello.run = identity.run;
  options.hello.host = "host" + std::to_string(identity.number);
  options.hello.pid = identity.number;
  options.hello.rank = identity.rank;
  if (random.chance(50)) options.hello.expiry = swarm.session_expiry;
  return options;
}

}  // namespace

Client::Client(World& world, const Swarm& swarm, Network& network, Records& records,
               DriftingClock clock, Identity identity, std::shared_ptr<Team> team, unsigned calls)
    : Process(world, clock),
      swarm_(swarm),
      network_(network),
      records_(records),
      identity_(std::move(identity)),
      team_(std::move(team)),
      core_(options_of(identity_, swarm, world.random), local_now()),
      workload_(swarm, team_, identity_.number, world.random.next()),
      calls_left_(calls),
      next_ask_(local_now()) {}

void Client::start() { wake_at(world_.now()); }

std::uint64_t Client::ask(Request request) {
  Op op;
  op.client = identity_.number;
  op.job = identity_.job;
  op.launch = team_->launch;
  op.request = request;
  op.invoked = world_.next_order();
  op.invoked_at = world_.now();
  world_.note("invoke", op.client, op.invoked, info_of(request).name);
  const std::uint64_t call = core_.call(std::move(request), kLimit, local_now());
  pending_[call] = records_.ops.size();
  records_.ops.push_back(std::move(op));
  wake_at(world_.now());
  return call;
}

void Client::leave() {
  stop_asking();
  may_follow_ = false;
  note_names();
  core_.fail_calls(failure(Code::closed, "the client was closed"));
  ask(Goodbye{});
}

void Client::on_bytes(const LinkRef& link, std::string bytes) {
  post([this, link, bytes = std::move(bytes)] {
    if (link == link_) core_.received(bytes, local_now());
  });
}

void Client::on_closed(const LinkRef& link) {
  post([this, link] {
    if (link != link_) return;
    link_.reset();
    core_.closed("the connection was lost", local_now());
    if (planted(Plant::retry_is_new_call)) call_again();
  });
}

/// Plants a client that sends an unanswered change again under another number.
void Client::call_again() {
  for (const auto& [call, index] : std::exchange(pending_, {})) {
    const Request& request = records_.ops[index].request;
    std::uint64_t now_called = call;
    if (info_of(request).dedup == Dedup::reply) {
      core_.fail_call(call, failure(Code::closed, "called again"), local_now());
      now_called = core_.call(request, kLimit, local_now());
    }
    pending_[now_called] = index;
  }
}

void Client::kill() {
  if (dead()) return;
  world_.note("client.kill", identity_.number);
  Process::kill();
  records_.dead_clients.insert(identity_.number);
  if (link_) link_->reset();
  link_.reset();
}

void Client::vanish() {
  if (dead()) return;
  if (const LinkRef link = std::exchange(link_, nullptr)) link->vanish(Link::client);
  kill();
}

void Client::stop_following() {
  may_follow_ = false;
  if (!follows()) return;
  note_names();
  core_.fail_call(follow_, failure(Code::aborted, "the caller gave up"), local_now());
  wake_at(world_.now());
}

void Client::partition(Duration how_long) {
  partitioned_until_ = world_.now() + how_long;
  if (!link_) return;
  link_->cut(Link::client);
  if (world_.random.chance(50)) link_->cut(Link::daemon);
  world_.after(how_long, [link = link_] { link->heal(); });
}

void Client::cut_off(Duration how_long) {
  records_.cut_off.insert(identity_.number);
  if (link_) link_->reset();
  partition(how_long);
}

/// The oracle: a member that sees no other trouble than the death of a daemon and loads never
/// fences itself, as the SDK does when four fifths of its ttl have passed without a sign of life.
/// In a fleet there is other trouble: a lease that could not be renewed, while nobody owns the job.
/// A daemon that dies again at once is other trouble, too.
void Client::check_fence() {
  const TimePoint confirmed = std::exchange(confirmed_, core_.last_confirmed());
  if (swarm_.fleet() || swarm_.slow_load == Duration(0) || core_.stats(local_now()).connects == 0)
    return;
  const Duration silent = local_now() - confirmed;
  if (confirmed == TimePoint() || silent < swarm_.group_policy->ttl / 5 * 4) return;
  const auto died = [&](TimePoint at) { return at >= world_.now() - silent; };
  if (std::ranges::count_if(records_.deaths, died) > 1) return;
  world_.violated("fence",
                  format("client {} has had no sign of life for {} ms: {}", identity_.number,
                         silent / milliseconds(1), core_.absence(local_now())));
}

void Client::end_turn() {
  check_fence();
  note_names();
  core_.tick(local_now());
  ask_workload();
  if (!core_.wants_socket() && link_) {
    link_->close(Link::client);
    link_.reset();
  }
  if (core_.wants_credential(local_now())) show_token();
  flush();
  note_names();
  if (core_.over() && client::is_denial(core_.over()->code)) return kill();  // its first connect
  settle();
  records_.sessions[core_.session()].confirmed = world_time(core_.last_confirmed());
  dial();
  if (const auto deadline = core_.next_deadline()) wake_at_local(*deadline);
  if (calls_left_ > 0 && busy_calls() < swarm_.outstanding) wake_at_local(next_ask_);
  if (swarm_.group_policy && may_follow_ && !follows()) wake_at_local(next_follow_);
}

void Client::ask_follow() {
  if (!swarm_.group_policy || !may_follow_ || follows() || local_now() < next_follow_) return;
  next_follow_ = local_now() + milliseconds(1 + world_.random.below(400));
  follow_ = ask(workload_.watch());
}

void Client::ask_workload() {
  ask_follow();
  while (calls_left_ > 0 && busy_calls() < swarm_.outstanding && local_now() >= next_ask_) {
    --calls_left_;
    next_ask_ = local_now() + world_.random.between(Duration(0), swarm_.think);
    if (auto request = workload_.next()) ask(std::move(*request));
  }
  // Sometimes a caller cancels its call.
  if (calls_left_ > 0 && !pending_.empty() && world_.random.below(400) == 0) {
    const auto [call, index] = *pending_.begin();
    note_names();
    core_.fail_call(call, failure(Code::aborted, "the caller gave up"), local_now());
  }
}

void Client::flush() {
  while (link_ && !core_.output().empty()) {
    const std::string_view out = core_.output();
    std::size_t taken = out.size();
    // A full socket takes the rest only if the peer reads: Core takes that for a sign of life.
    const bool read = link_->is_read(Link::client);
    if (swarm_.fragments && read && world_.random.chance(20))
      taken = 1 + world_.random.below(taken);
    link_->send(Link::client, out.substr(0, taken));
    core_.written(taken, local_now());
  }
}

/// Records the session and the sequence number under which the daemon knows each call.
void Client::note_names() {
  for (const auto& [call, index] : pending_) {
    const std::uint64_t sequence = core_.sequence_of(call);
    if (sequence == 0) continue;
    records_.ops[index].session = core_.session();
    records_.ops[index].sequence = sequence;
  }
}

void Client::settle() {
  for (client::Completion& done : core_.take_completions()) {
    const auto it = pending_.find(done.call);
    if (it == pending_.end()) continue;
    Op& op = records_.ops[it->second];
    pending_.erase(it);
    op.answered = world_.next_order();
    op.answered_at = world_.now();
    op.reply = std::move(done.reply);
    world_.note("answer", op.client, op.invoked, op.good() ? "ok" : name_of(op.code()));
    workload_.done(op);
  }
  const std::uint64_t lost = core_.stats(local_now()).sessions_lost;
  if (lost != std::exchange(sessions_lost_, lost)) {
    team_->replace(identity_.number, identity_.number);
    workload_.session_lost();
  }
}

void Client::show_token() {
  if (!records_.access) return;
  if (core_.open() && planted(Plant::newer_token_not_shown)) return;
  const std::string& of = identity_.token_of.empty() ? identity_.job : identity_.token_of;
  core_.show(records_.access->token(of), local_now());
}

void Client::dial() {
  const auto at = core_.dial_at();
  if (!at || *at > local_now()) return;
  core_.dialling();
  world_.note("dial", identity_.number, 0, core_.address());
  show_token();
  const auto self = std::static_pointer_cast<Client>(shared_from_this());
  const auto dialled = [this, self](const LinkRef& link, bool refused) {
    post([this, link, refused] {
      link_ = link;
      world_.note("dialled", identity_.number, link ? link->number : 0, refused ? "refused" : "");
      if (link) return core_.connected(local_now());
      core_.closed("connection refused", local_now(), refused);
    });
    if (dead() && link) link->reset();
  };
  if (world_.now() < partitioned_until_) {
    world_.after(kDialPatience, [dialled] { dialled(nullptr, false); });
  } else {
    network_.dial(core_.address(), std::weak_ptr<Endpoint>(self), dialled);
  }
}

}  // namespace c10dd::sim
