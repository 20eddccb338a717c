// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/proxied_clients.h"

#include "tests/sim/access_story.h"

#include <utility>

#include "protocol/format.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using tcpstore::Dialect;
using tcpstore::Query;

constexpr Duration kDialPatience = milliseconds(2500);

client::CoreOptions options_of(const Swarm& swarm, std::uint32_t number, Random& random) {
  client::CoreOptions options;
  options.addresses.clear();
  for (unsigned i = 0; i < swarm.daemons; ++i) options.addresses.push_back(address_of(i));
  options.seed = random.next();
  options.hello.session = {random.next(), random.next()};
  options.hello.job = "job1";
  options.hello.host = "node" + std::to_string(number);
  return options;
}

/// Returns whether the proxy may close a client for this reason.
bool may_close(Code code) {
  return code == Code::session_expired || code == Code::outcome_unknown ||
         code == Code::state_rolled_back || code == Code::disk_full ||
         code == Code::quota_exceeded || code == Code::wrong_type || code == Code::out_of_range ||
         code == Code::closed || code == Code::session_replaced;
}

}  // namespace

ProxiedClient::ProxiedClient(World& world, const Swarm& swarm, Network& network, Records& records,
                             DriftingClock clock, std::uint32_t number, std::uint64_t seed,
                             unsigned messages)
    : Process(world, clock),
      swarm_(swarm),
      network_(network),
      records_(records),
      random_(seed),
      client_(options_of(swarm, number, random_), tcpstore::LegacyClients::detect),
      number_(number),
      left_(messages),
      next_(local_now()) {
  encode_message(to_proxy_, Dialect::v, {.query = Query::validate, .number = tcpstore::kMagic});
  encode_message(to_proxy_, Dialect::v, {.query = Query::ping, .number = number});
}

std::string ProxiedClient::unsettled() const {
  if (dead() || (!asked_ && client_.unanswered() == 0)) return "";
  return "client " + std::to_string(number_) + " of the proxy waits for answers; ";
}

// ---- the local client --------------------------------------------------------------------------

/// Records a call and gives its message to the proxy. The proxy numbers its calls from 1.
void ProxiedClient::send(const tcpstore::Message& message, Request request, bool has_reply) {
  encode_message(to_proxy_, Dialect::v, message);
  Op op;
  op.client = number_;
  op.job = "job1";
  op.request = std::move(request);
  op.invoked = world_.next_order();
  op.invoked_at = world_.now();
  world_.note("proxied.ask", number_, op.invoked, info_of(op.request).name);
  unnamed_.emplace_back(++calls_, records_.ops.size());
  if (has_reply) asked_ = {message.query, records_.ops.size()};
  records_.ops.push_back(std::move(op));
}

void ProxiedClient::ask() {
  if (asked_ || local_now() < next_) return;
  if (queue_.empty() && left_ == 0) return;
  if (queue_.empty()) --left_;
  next_ = local_now() + random_.between(Duration(0), swarm_.think);
  const std::string number = std::to_string(random_.below(swarm_.keys));
  const Bytes counter = "n" + number;
  const Bytes queue = "w" + number;
  if (!queue_.empty()) {
    const Bytes from = std::exchange(queue_, {});
    return send({.query = Query::queue_pop, .key = from}, QueuePop{from, {}}, true);
  }
  switch (random_.below(6)) {
    case 0:
    case 1: {
      const auto delta = static_cast<std::int64_t>(random_.below(1'000'000));
      return send({.query = Query::add, .key = counter, .number = delta},
                  Add{Blob(counter), delta, true}, true);
    }
    case 2: {
      const Bytes value = format("{}.{}", number_, ++values_);
      return send({.query = Query::queue_push, .key = queue, .value = value},
                  QueuePush{queue, value}, false);
    }
    case 3:
      return send({.query = Query::check, .keys = {counter}}, Check{{counter}}, true);
    case 4:
      return send({.query = Query::remove, .key = counter}, Remove{Blob(counter)}, true);
    default:
      return send({.query = Query::wait, .keys = {queue}}, Wait{{queue}, Duration::max(), true},
                  true);
  }
}

/// Gives up a wait, as PyTorch does at its own time-out.
void ProxiedClient::cancel() {
  if (!asked_ || asked_->query != Query::wait || asked_->cancelled) return;
  if (left_ > 0 && random_.below(30) > 0) return;
  asked_->cancelled = true;
  encode_message(to_proxy_, Dialect::v, {.query = Query::cancel_wait});
}

/// Reads the reply to the message that waits for one, and that to the ping.
void ProxiedClient::read() {
  from_proxy_ += client_.take_output();
  while (!from_proxy_.empty()) {
    const bool greets = !greeted_;
    if (!greets && !asked_) {
      return world_.violated("proxied", "a reply that nobody has asked for");
    }
    const Query query = greets ? Query::ping : asked_->query;
    const auto told = cut_reply(from_proxy_, query);
    if (!told) return world_.violated("proxied", "a malformed reply: " + told.error().detail);
    if (!*told) return;
    const Reply reply = greets ? Reply(ReplyBody(Done{})) : read_reply(**told);
    const bool given_up = query == Query::wait && (*told)->number == tcpstore::kWaitCancelled;
    if (query == Query::wait && !given_up) {
      queue_ = std::get<Wait>(records_.ops[asked_->op].request).keys.front();
    }
    from_proxy_.erase(0, (*told)->size);
    greeted_ = true;
    if (greets) continue;
    // A wait that ends while it is cancelled gets both replies.
    const bool one_more = asked_->cancelled && !given_up;
    Op& op = records_.ops[asked_->op];
    if (op.answered == 0) {
      op.answered = world_.next_order();
      op.answered_at = world_.now();
      op.reply = given_up ? Reply(failure(Code::aborted, "cancelled")) : reply;
    }
    if (one_more) continue;
    asked_.reset();
  }
}

Reply ProxiedClient::read_reply(const tcpstore::ServerReply& told) const {
  switch (asked_->query) {
    case Query::add:
      return ReplyBody(Counter{told.number});
    case Query::check:
      return ReplyBody(Checked{told.number == tcpstore::kReady});
    case Query::remove:
      return ReplyBody(Removed{told.number == 1});
    case Query::queue_pop:
      if (told.texts.empty()) return failure(Code::not_found, "the queue is empty");
      return ReplyBody(Popped{Bytes(told.texts.front()), static_cast<std::uint64_t>(told.number)});
    default:
      return ReplyBody(Done{});
  }
}

void ProxiedClient::leave() {
  if (dead()) return;
  left_ = 0;
  asked_.reset();
  client_.leave(local_now());
  wake_at(world_.now());
}

/// A client that was closed has ended: what it asked may or may not have been done.
void ProxiedClient::check_over() {
  const Failure* over = client_.over();
  if (over == nullptr || dead()) return;
  world_.note("proxied.closed", number_, 0, name_of(over->code));
  if (!may_close(over->code)) {
    return world_.violated("proxied", "a client was closed: " + over->detail);
  }
  records_.dead_clients.insert(number_);
  if (link_) link_->close(Link::client);
  link_.reset();
  kill();
}

// ---- the daemon --------------------------------------------------------------------------------

void ProxiedClient::on_bytes(const LinkRef& link, std::string bytes) {
  post([this, link, bytes = std::move(bytes)] {
    if (link == link_) client_.core()->received(bytes, local_now());
  });
}

void ProxiedClient::on_closed(const LinkRef& link) {
  post([this, link] {
    if (link != link_) return;
    link_.reset();
    client_.core()->closed("the connection was lost", local_now());
  });
}

void ProxiedClient::cut_off(Duration how_long) {
  if (dead()) return;
  cut_off_until_ = world_.now() + how_long;
  if (link_) link_->reset();
}

void ProxiedClient::end_turn() {
  if (client_.core() != nullptr) client_.core()->tick(local_now());
  ask();
  cancel();
  to_proxy_.erase(0, client_.take(to_proxy_, local_now()));
  read();
  client::Core* core = client_.core();
  if (core != nullptr) {
    if (!core->wants_socket() && link_) {
      link_->close(Link::client);
      link_.reset();
    }
    flush();
    std::erase_if(unnamed_, [&](const auto& one) {
      const std::uint64_t sequence = core->sequence_of(one.first);
      if (sequence != 0) {
        records_.ops[one.second].session = core->session();
        records_.ops[one.second].sequence = sequence;
      }
      return !core->deadline_of(one.first);
    });
    records_.sessions[core->session()].confirmed = world_time(core->last_confirmed());
    if (client_.core()->wants_credential(local_now())) show_token();
    dial();
    if (const auto deadline = core->next_deadline()) wake_at_local(*deadline);
  }
  check_over();
  if (!dead() && (left_ > 0 || asked_ || !queue_.empty())) {
    wake_at_local(std::max(next_, local_now() + milliseconds(20)));
  }
}

void ProxiedClient::flush() {
  client::Core& core = *client_.core();
  while (link_ && !core.output().empty()) {
    const std::string_view out = core.output();
    link_->send(Link::client, out);
    core.written(out.size(), local_now());
  }
}

void ProxiedClient::show_token() {
  if (records_.access) client_.core()->show(records_.access->token("job1"), local_now());
}

void ProxiedClient::dial() {
  client::Core& core = *client_.core();
  const auto at = core.dial_at();
  if (!at || *at > local_now()) return;
  core.dialling();
  show_token();
  const auto self = std::static_pointer_cast<ProxiedClient>(shared_from_this());
  const auto dialled = [this, self](const LinkRef& link, bool refused) {
    post([this, link, refused] {
      link_ = link;
      if (link) return client_.core()->connected(local_now());
      client_.core()->closed("connection refused", local_now(), refused);
    });
    if (dead() && link) link->reset();
  };
  if (world_.now() < cut_off_until_) {
    world_.after(kDialPatience, [dialled] { dialled(nullptr, false); });
  } else {
    network_.dial(core.address(), std::weak_ptr<Endpoint>(self), dialled);
  }
}

}  // namespace c10dd::sim
