// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/native_channels.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {

Result<void> check_hello(const Hello& hello) {
  if (hello.version_min > kProtocolVersion || hello.version_max < 1) {
    return failure(
        Code::version_unsupported,
        "the client requests protocol versions {} to {}, but this daemon supports 1 to {}",
        hello.version_min, hello.version_max, kProtocolVersion);
  }
  if (hello.credential.size() > limits::kCredentialBytes) {
    return failure(Code::too_large, "hello: the credential is too long: {} bytes, limit {}",
                   hello.credential.size(), limits::kCredentialBytes);
  }
  return {};
}

namespace {

/// The job knows from the hello whether a session may only read. So its client says hello again.
Failure role_changed() {
  return failure(Code::session_unknown,
                 "the client may now do more in this job than read, or only read; say hello again");
}

}  // namespace

bool NativeChannels::take(const Frame& frame, std::int64_t arrived_ns) {
  const native::RequestHeader& header = frame.header;
  Result<Request> request = native::decode_request_in_place(header.op, frame.body);
  if (!request) {
    if (request.error().code != Code::unknown_op) {
      connection_.refuse_bytes(header, request.error());
    } else {
      connection_.unknown_op();
      reply(header, request.error());
    }
    return false;
  }
  const OpInfo& op = info_of(*request);
  // A draining daemon replies to pings, and refuses hellos. Other requests get no reply, because
  // the client sends them again to the next daemon.
  const bool answered_in_drain = op.code == Ping::op.code || op.code == Hello::op.code;
  if (host_.draining() && !answered_in_drain) return false;
  connection_.taken(op);
  if (auto* hello = std::get_if<Hello>(&*request)) {
    open(header, std::move(*hello));
    return false;
  }
  const auto it = channels_.find(header.channel);
  if (it == channels_.end() || !it->second.job) {
    reply(header, failure(Code::session_unknown, "channel {} has no session: send hello first",
                          header.channel));
    return false;
  }
  Channel& channel = it->second;
  if (last_job_ != channel.job) last_job_ = channel.job;
  const bool spent = host_.charge(channel.job, frame.size);
  if (op.access > channel.shown.may) {
    reply(header, failure(Code::permission_denied,
                          "the token of this client does not allow {} in this job; ask for one "
                          "with a higher role",
                          op.name));
    return spent;
  }
  if (const auto* const newer = std::get_if<Authenticate>(&*request)) {
    authenticate(header, channel, *newer);
    return spent;
  }
  const bool by_reply = op.dedup == Dedup::reply;
  const CallId call{.sequence = header.sequence,
                    .acked_below = header.acked_below,
                    .fingerprint = by_reply ? native::fingerprint(header.op, frame.body) : 0,
                    .arrived_ns = arrived_ns};
  if (const auto* const lease = std::get_if<LeaseEndpoint>(&*request)) {
    ask_directory(header, channel, *lease, arrived_ns);
    return spent;
  }
  if (op.code == Ping::op.code && channels_.size() > 1) heartbeat_for_others(channel);
  host_.submit(channel.job, channel.attachment, call, *request);
  return spent;
}

/// Lets the directory answer a request, because the job knows nothing of endpoints. There is no
/// reply if the session has left the channel by then: its client asks again.
void NativeChannels::ask_directory(const native::RequestHeader& header, const Channel& channel,
                                   const LeaseEndpoint& lease, std::int64_t arrived_ns) {
  host_.heard(channel.job, number_);  // a request is a sign of life
  host_.lease_endpoint(channel.job->name, lease, arrived_ns,
                       [this, self = connection_.shared_from_this(), header,
                        asker = channel.attachment](const Reply& result) {
                         const auto it = channels_.find(header.channel);
                         if (it == channels_.end() || it->second.attachment != asker) return;
                         reply(header, result);
                       });
}

/// Passes the heartbeat of one channel to the other jobs of the connection, because a heartbeat
/// counts for all sessions of its connection.
void NativeChannels::heartbeat_for_others(const Channel& one) {
  for (const JobRef& job : jobs()) {
    if (job != one.job) host_.heard(job, number_);
  }
}

void NativeChannels::heard() {
  for (const JobRef& job : jobs()) host_.heard(job, number_);
}

const std::vector<JobRef>& NativeChannels::jobs() {
  if (!std::exchange(jobs_changed_, false)) return jobs_;
  std::map<JobNumber, JobRef> jobs;
  for (const auto& [number, channel] : channels_) {
    if (channel.job) jobs.emplace(channel.job->number, channel.job);
  }
  jobs_.clear();
  for (const auto& [number, job] : jobs) jobs_.push_back(job);
  return jobs_;
}

/// The channels have changed. A connection must not keep a job in memory in which it has no
/// session.
void NativeChannels::forget_jobs() {
  jobs_.clear();
  jobs_changed_ = true;
  last_job_.reset();
}

void NativeChannels::open(const native::RequestHeader& header, Hello hello) {
  if (const Result<void> good = check_hello(hello); !good)
    return connection_.refuse_bytes(header, good.error());
  if (channels_.size() >= limits::kChannelsPerConnection && !channels_.contains(header.channel)) {
    return reply(header, failure(Code::quota_exceeded,
                                 "too many channels on the connection: {} with this one, limit {}",
                                 channels_.size() + 1, limits::kChannelsPerConnection));
  }
  // Before the job is looked up: whoever may do nothing in it makes none, and learns nothing.
  Result<Caller> caller = connection_.authenticate(hello.credential, hello.job);
  if (!caller) return reply(header, caller.error());
  Credential shown = credential_of(hello.job, std::exchange(hello.credential, {}), *caller);
  hello.fleeting = false;                   // a native client resumes its sessions
  if (caller->observes()) hello.rank = -1;  // no rank waits for a viewer
  Channel& channel = channels_[header.channel];
  // A hello for the same session of the same job takes the session over.
  const bool same = channel.job && channel.session == hello.session &&
                    channel.job->name == hello.job && channel.job->run == hello.run;
  if (channel.job && !same) host_.detach(channel.job, channel.attachment);
  channel = {++hellos_, hello.session, std::move(shown), nullptr, nullptr};
  forget_jobs();
  greeted_ = true;
  const auto on_open = [this, self = connection_.shared_from_this(), number = header.channel,
                        newest = hellos_](const JobRef& job, const AttachmentRef& attachment) {
    opened_on(number, newest, job, attachment);
  };
  host_.hello({connection_.shared_from_this(), header.channel, header.sequence, number_,
               std::move(hello), on_open, connection_.client(), std::move(*caller), true});
}

NativeChannels::Credential NativeChannels::credential_of(const std::string& job, std::string text,
                                                         const Caller& caller) {
  Credential shown{.job = job, .may = caller.access, .valid_for = caller.valid_for};
  if (caller.valid_for > Duration::zero()) shown.text = std::move(text);
  return shown;
}

void NativeChannels::authenticate(const native::RequestHeader& header, Channel& channel,
                                  const Authenticate& request) {
  if (request.credential.size() > limits::kCredentialBytes) {
    return reply(header, failure(Code::too_large,
                                 "authenticate: the credential is too long: {} bytes, limit {}",
                                 request.credential.size(), limits::kCredentialBytes));
  }
  const Result<Caller> caller = connection_.authenticate(request.credential, channel.job->name);
  if (!caller) return reply(header, caller.error());
  const Origin& from = channel.attachment->from;
  if (from.principal && *from.principal != caller->principal) {
    return reply(header, failure(Code::permission_denied,
                                 "authenticate: the session is not one of \"{}\"; open another "
                                 "session with this token",
                                 caller->principal));
  }
  channel.shown = credential_of(channel.job->name, request.credential, *caller);
  channel.charge_credential();
  reply(header, ReplyBody(Authenticated{channel.shown.valid_for}));
  if (caller->observes() != from.observes) end_opened(header.channel, role_changed());
}

void NativeChannels::recheck() {
  std::vector<std::pair<std::uint32_t, Failure>> refused;
  for (auto& [number, channel] : channels_) {
    if (channel.shown.valid_for <= Duration::zero()) continue;
    const Result<Caller> caller = connection_.authenticate(channel.shown.text, channel.shown.job);
    const Origin* const from = channel.attachment ? &channel.attachment->from : nullptr;
    if (!caller) {
      refused.emplace_back(number, caller.error());
    } else if (from && from->principal && *from->principal != caller->principal) {
      refused.emplace_back(
          number, failure(Code::unauthenticated,
                          "the session is not one of \"{}\"; open another one", caller->principal));
    } else if (from && from->observes != caller->observes()) {
      refused.emplace_back(number, role_changed());
    } else {
      channel.shown.may = caller->access;
    }
  }
  for (const auto& [number, why] : refused) end_opened(number, why);
}

/// Takes the session of a channel off the connection, and tells the client why.
void NativeChannels::end_opened(std::uint32_t number, const Failure& why) {
  const Channel channel = channels_.at(number);
  if (channel.job) host_.detach(channel.job, channel.attachment);
  end_session(number, why);
}

/// Records that a job has opened a session. If the channel no longer exists, or a later hello has
/// come, detaches the session instead: what its client may do belongs to one hello.
void NativeChannels::opened_on(std::uint32_t channel, std::uint64_t hello, const JobRef& job,
                               const AttachmentRef& attachment) {
  const auto it = channels_.find(channel);
  if (it == channels_.end() || it->second.hello != hello) return host_.detach(job, attachment);
  C10DD_ASSERT(it->second.shown.job == job->name);
  it->second.job = job;
  it->second.attachment = attachment;
  it->second.charge_credential();
  forget_jobs();
  opened_ = true;
  if (attachment->from.principal) connection_.admitted(*attachment->from.principal, job->name);
}

void NativeChannels::deliver(std::uint32_t channel, const OutgoingReply& reply,
                             const Stamp& stamp) {
  // The credential of this hello expired while its job was loaded, and recheck() has refused it.
  if (reply.op == Hello::op.code && !channels_.contains(channel)) return;
  native::ReplyHeader header;
  header.op = reply.op;
  header.channel = channel;
  header.sequence = reply.sequence;
  header.stamp = stamp;
  connection_.send(header, reply.result);
  if (reply.op != Goodbye::op.code) return;
  channels_.erase(channel);
  forget_jobs();
}

void NativeChannels::end_session(std::uint32_t channel, const Failure& reason) {
  if (channels_.erase(channel) == 0) return;
  forget_jobs();
  native::RequestHeader header;
  header.channel = channel;
  header.op = Hello::op.code;
  reply(header, reason);
}

void NativeChannels::reply(const native::RequestHeader& header, const Reply& reply) {
  native::ReplyHeader frame;
  frame.op = header.op;
  frame.channel = header.channel;
  frame.sequence = header.sequence;
  connection_.send(frame, reply);
  connection_.flush();
}

void NativeChannels::close_sessions() {
  for (const auto& [number, channel] : channels_) {
    if (channel.job) host_.detach(channel.job, channel.attachment);
  }
  channels_.clear();
  jobs_.clear();
}

}  // namespace c10dd::core
