// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/reply_sender.h"

#include <utility>

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kRepliesKept = 64;  // a buffer for more replies is freed when it is not used

}  // namespace

void ReplySender::release(const JobRef& slot) {
  slot->gate->take_released(spare_replies_);
  for (OutgoingReply& reply : spare_replies_) {
    context_.shell.released(reply);
    AttachmentRef to = std::move(reply.attachment);
    if (to == nullptr) continue;
    if (const auto refused = slot->refused.extract(to->refusal)) {
      refuse(refused.mapped(), reply.result.error());
      continue;
    }
    if (to->ended() && planted(Planted::replies_follow_session)) {
      const auto newer = slot->attached.find(reply.to);
      if (newer != slot->attached.end()) to = newer->second;
    }
    if (to->ended()) continue;
    Stamp stamp = slot->gate->stamp();
    if (planted(Planted::stamp_too_new)) stamp.revision = slot->job->revision();
    if (to_flush_.empty() || to_flush_.back() != to->sink) to_flush_.push_back(to->sink);
    to->sink->deliver(to->channel, reply, stamp);
    if (reply.op == Goodbye::op.code) slot->end(to, context_.loop.now());
  }
  const bool mostly_unused = spare_replies_.size() < spare_replies_.capacity() / 4;
  spare_replies_.clear();
  if (mostly_unused && spare_replies_.capacity() > kRepliesKept) spare_replies_.shrink_to_fit();
}

void ReplySender::refuse(const std::shared_ptr<ReplySink>& sink, std::uint32_t channel,
                         std::uint64_t sequence, Failure reason) {
  OutgoingReply reply;
  reply.sequence = sequence;
  reply.op = Hello::op.code;
  reply.result = std::move(reason);
  sink->deliver(channel, reply, Stamp{});
  to_flush_.push_back(sink);
}

void ReplySender::refuse(const JobSlot::Refused& refused, Failure reason) {
  const std::shared_ptr<ReplySink> sink = std::exchange(refused.to->sink, nullptr);
  refuse(sink, refused.to->channel, refused.sequence, std::move(reason));
}

}  // namespace c10dd::core
