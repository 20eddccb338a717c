// SPDX-License-Identifier: Apache-2.0
// Bytes to frames and back, as daemon/net/native_session.cc does.
#include "protocol/limits.h"
#include "tests/sim/daemon.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {

void Daemon::accept(const LinkRef& link) {
  if (dead()) return link->reset();
  link->attach(Link::daemon, std::static_pointer_cast<Daemon>(shared_from_this()));
  auto connection = std::make_shared<Connection>();
  connection->link = link;
  connections_[link->number] = connection;
}

void Daemon::on_bytes(const LinkRef& link, std::string bytes) {
  post([this, number = link->number, bytes = std::move(bytes)] {
    const auto it = connections_.find(number);
    if (it == connections_.end()) return;
    const ConnectionRef connection = it->second;
    read(connection, bytes);
  });
}

void Daemon::on_closed(const LinkRef& link) {
  post([this, number = link->number] {
    const auto it = connections_.find(number);
    if (it == connections_.end()) return;
    const ConnectionRef connection = it->second;
    end(connection);
  });
}

void Daemon::die(bool power_lost) {
  if (dead()) return;
  world_.note(power_lost ? "daemon.power_cut" : "daemon.kill", number_);
  Process::kill();
  if (queue_) queue_->die();
  for (const auto& [number, connection] : std::exchange(connections_, {})) {
    if (power_lost) {
      connection->link->vanish(Link::daemon);
    } else {
      connection->link->reset();
    }
  }
  for (const auto& [number, slot] : jobs_) {
    for (const auto& [session, attachment] : slot->attached) {
      records_.sessions[session].is_here(world_.now(), false);
    }
  }
}

void Daemon::read(const ConnectionRef& connection, std::string_view bytes) {
  connection->in.append(bytes);
  std::string_view in = connection->in;
  if (in.size() < native::kMagic.size()) return;
  std::size_t used = 0;
  const bool first = in.starts_with(native::kMagic);
  if (first) used = native::kMagic.size();
  while (connections_.contains(connection->link->number)) {
    const std::size_t limit = connection->opened ? limits::kFrameBytes : limits::kHelloFrameBytes;
    const auto frame = native::cut_request(in.substr(used), limit);
    if (!frame) {
      world_.violated("codec",
                      "a frame of the product's client is refused: " + frame.error().detail);
      return end(connection);
    }
    if (!*frame) break;
    take(connection, **frame);
    used += (*frame)->size;
  }
  // The magic stays until a whole frame followed it: then the input cannot start with it again.
  if (first && used == native::kMagic.size()) used = 0;
  connection->in.erase(0, used);
}

void Daemon::take(const ConnectionRef& connection,
                  const native::Frame<native::RequestHeader>& frame) {
  native::RequestHeader header = frame.header;
  Result<Request> request = native::decode_request(header.op, frame.body);
  if (!request) {
    world_.violated("codec",
                    "a request of the product's client is refused: " + request.error().detail);
    return end(connection);
  }
  const OpInfo& op = info_of(*request);
  if (draining_ && op.code != Hello::op.code && op.code != Ping::op.code) return;
  world_.note("request", header.sequence, header.acked_below, op.name);
  if (auto* hello = std::get_if<Hello>(&*request))
    return open(connection, header, std::move(*hello));
  const auto it = connection->channels.find(header.channel);
  if (it == connection->channels.end() || it->second.job == 0) {
    return answer(connection, header,
                  failure(Code::session_unknown, "the channel has no session: send hello first"));
  }
  const auto slot = jobs_.find(it->second.job);
  if (slot == jobs_.end()) return;  // dropped; its connections were told
  if (planted(Plant::acked_below_too_high)) ++header.acked_below;
  const core::CallId call{header.sequence, header.acked_below,
                          op.dedup == Dedup::reply ? native::fingerprint(header.op, frame.body) : 0,
                          0};
  const core::Origin from = it->second.from;
  if (op.code == Goodbye::op.code) records_.sessions[from.session].said_goodbye = true;
  slot->second->signs[from.session].frame = job_now();
  if (op.code == Ping::op.code) {
    if (planted(Plant::beats_not_counted)) return answer(connection, header, ReplyBody(Done{}));
    if (connection->channels.size() > 1) beat_for_others(connection, it->second.job);
  }
  submit(slot->second, from, call, *request);
}

/// A heartbeat is a sign of life of every session on the connection, whichever job it is in.
void Daemon::beat_for_others(const ConnectionRef& connection, JobNumber one) {
  for (const auto& [number, channel] : connection->channels) {
    const auto slot = jobs_.find(channel.job);
    if (channel.job == one || slot == jobs_.end()) continue;
    slot->second->signs[channel.from.session].frame = job_now();
    slot->second->job->heard(connection->link->number, job_now());
  }
}

void Daemon::open(const ConnectionRef& connection, const native::RequestHeader& header,
                  Hello hello_frame) {
  Connection::Channel& channel = connection->channels[header.channel];
  if (channel.job != 0 && channel.from.session != hello_frame.session) {
    const auto slot = jobs_.find(channel.job);
    if (slot != jobs_.end()) detach(slot->second, channel.from.session, connection.get());
  }
  channel = {};
  channel.from.session = hello_frame.session;
  channel.from.connection = connection->link->number;
  hello(connection, header.channel, header.sequence, std::move(hello_frame),
        [this, connection, number = header.channel,
         session = channel.from.session](const SlotRef& slot) {
          const auto it = connection->channels.find(number);
          if (it == connection->channels.end() || it->second.from.session != session) {
            return detach(slot, session, connection.get());
          }
          it->second.job = slot->number;
          connection->opened = true;
        });
}

void Daemon::deliver(const Slot::Attachment& to, const core::Reply& reply, const Stamp& stamp) {
  native::ReplyHeader header;
  header.op = reply.op;
  header.channel = to.channel;
  header.sequence = reply.sequence;
  header.stamp = stamp;
  const native::EncodedReply encoded = native::encode_reply(header, reply.answer);
  Bytes bytes = encoded.head;
  bytes += encoded.tail.view();
  world_.note("reply", reply.sequence, reply.observed, find_op(reply.op)->name);
  to.connection->link->send(Link::daemon, bytes);
  if (reply.op == Goodbye::op.code) to.connection->channels.erase(to.channel);
}

void Daemon::answer(const ConnectionRef& connection, const native::RequestHeader& header,
                    const Answer& answer) {
  core::Reply reply;
  reply.op = header.op;
  reply.sequence = header.sequence;
  reply.answer = answer;
  deliver({connection, header.channel, 0}, reply, Stamp{});
}

void Daemon::end_session(const Slot::Attachment& where, const Failure& reason) {
  if (where.connection->channels.erase(where.channel) == 0) return;
  native::RequestHeader header;
  header.channel = where.channel;
  header.op = Hello::op.code;
  answer(where.connection, header, reason);
}

void Daemon::end(const ConnectionRef& connection) {
  if (connections_.erase(connection->link->number) == 0) return;
  connection->link->close(Link::daemon);
  for (const auto& [number, channel] : connection->channels) {
    const auto slot = jobs_.find(channel.job);
    if (slot != jobs_.end()) detach(slot->second, channel.from.session, connection.get());
  }
  connection->channels.clear();
}

}  // namespace c10dd::sim
