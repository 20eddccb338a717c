// SPDX-License-Identifier: Apache-2.0
// A client core and a daemon that says anything, in pieces, with connections lost and time passing:
// every call is completed exactly once, what goes on the wire are whole frames, and no more is kept
// than the limits allow.
#include <set>

#include "client/core/core.h"
#include "protocol/utf8.h"
#include "tests/fuzz/draw.h"
#include "tests/fuzz/target.h"

namespace {

namespace native = c10dd::native;
using c10dd::Bytes;
using c10dd::client::Core;
using c10dd::fuzz::Draw;
using c10dd::fuzz::Input;

constexpr std::size_t kOutputMax = 1024 * 1024 + c10dd::limits::kFrameBytes + 1024;

class World {
 public:
  explicit World(Input& in)
      : in_(in), draw_(in), core_({{"a:1", "b:2"}, c10dd::Hello{}, in.byte()}, now_) {}

  void step();
  void finish() {
    core_.finish(c10dd::failure(c10dd::Code::closed, "the end"), now_);
    check();
    C10DD_ASSERT(pending_.empty() && !core_.wants_socket());
  }

 private:
  void connection();
  void write(std::size_t bytes);
  void reply();
  void pass();
  void check();

  Input& in_;
  Draw draw_;
  c10dd::TimePoint now_;
  Core core_;
  bool socket_ = false;  // made or being made
  Bytes heard_;          // by the daemon, frames that are not whole
  std::vector<native::RequestHeader> asked_;
  Bytes said_;  // by the daemon, not received yet
  std::set<std::uint64_t> pending_;
};

void World::step() {
  c10dd::Duration limit{0};
  switch (in_.below(10)) {
    case 0:
    case 1:
      draw_.fill(limit);
      C10DD_ASSERT(pending_.insert(core_.call(draw_.request(), limit, now_)).second);
      break;
    case 2:
      connection();
      break;
    case 3:
      write(core_.output().size() * in_.below(5) / 4);
      break;
    case 4:
    case 5:
      reply();
      break;
    case 6: {
      const std::size_t size = std::min<std::size_t>(said_.size(), 1 + 16 * in_.byte());
      if (socket_) core_.received(said_.substr(0, size), now_);
      said_.erase(0, size);
      break;
    }
    case 7:
      said_.append(in_.bytes(in_.byte()));
      break;
    case 8:
      pass();
      break;
    default: {
      const auto reason = c10dd::failure(c10dd::Code::aborted, "given up");
      in_.byte() < 0xF0 ? core_.fail_call(in_.byte(), reason, now_) : core_.fail_calls(reason);
    }
  }
  check();
}

/// What the shell does about the connection, and what may happen to it.
void World::connection() {
  if (!socket_ && core_.dial_at()) {
    now_ = std::max(now_, *core_.dial_at());
    const std::string& address = core_.address();
    C10DD_ASSERT(address.find(':') < address.size() - 1);
    C10DD_ASSERT(c10dd::printable(address, address.size()) == address);
    core_.dialling();
    socket_ = true;
    in_.byte() < 0xC0 ? core_.connected(now_) : core_.closed("refused", now_);
  } else if (socket_) {
    core_.closed("lost", now_);
  }
}

/// The socket takes so many bytes.
void World::write(std::size_t bytes) {
  heard_.append(core_.output().substr(0, bytes));
  core_.written(bytes, now_);
}

/// A well-formed frame: mostly an answer to something that was asked.
void World::reply() {
  native::ReplyHeader header;
  draw_.fill(header.sequence);
  draw_.fill(header.stamp);
  c10dd::Request any = draw_.request();
  header.op = info_of(any).code;
  header.channel = Core::kChannel;
  if (!asked_.empty() && in_.byte() < 0xE0) {
    const auto at = static_cast<std::ptrdiff_t>(in_.byte() % asked_.size());
    header.sequence = asked_[static_cast<std::size_t>(at)].sequence;
    header.op = asked_[static_cast<std::size_t>(at)].op;
    asked_.erase(asked_.begin() + at);
  }
  const native::EncodedReply encoded = native::encode_reply(header, draw_.reply(header.op));
  said_ += encoded.head + Bytes(encoded.tail.view());
}

void World::pass() {
  c10dd::Duration time{0};
  draw_.fill(time);
  now_ += std::clamp<c10dd::Duration>(time, c10dd::Duration(0), std::chrono::hours(24 * 30));
  core_.tick(now_);
  if (core_.wants_credential(now_)) core_.show(in_.byte() < 0x80 ? "old" : "new", now_);
  // Else the shell would tick without an end.
  const auto next = core_.next_deadline();
  C10DD_ASSERT(!next || *next > now_ || (core_.dial_at() && *core_.dial_at() <= now_));
}

/// What a shell relies on after each report.
void World::check() {
  for (const c10dd::client::Completion& done : core_.take_completions()) {
    C10DD_ASSERT(pending_.erase(done.call) == 1);
    if (!done.reply) C10DD_ASSERT(done.reply.error().code != c10dd::Code::ok);
  }
  if (!core_.wants_socket()) {
    socket_ = false;
    heard_.clear();
    said_.clear();
    asked_.clear();
  }
  C10DD_ASSERT(core_.output().size() <= kOutputMax);
  C10DD_ASSERT(!core_.open() || !core_.output().empty() || !core_.over());
  if (!socket_ || in_.byte() % 2 == 0) return;
  write(core_.output().size());
  std::string_view rest = heard_;
  if (rest.starts_with(native::kMagic)) rest.remove_prefix(native::kMagic.size());
  while (!rest.empty()) {
    const auto frame = native::cut_request(rest, c10dd::limits::kFrameBytes);
    C10DD_ASSERT(frame.has_value());
    if (!*frame) break;
    C10DD_ASSERT(native::decode_request((*frame)->header.op, (*frame)->body).has_value());
    asked_.push_back((*frame)->header);
    rest.remove_prefix((*frame)->size);
  }
  heard_ = Bytes(rest);
}

}  // namespace

C10DD_FUZZ(client_core) {
  Input in(data, size);
  World world(in);
  while (!in.empty()) world.step();
  world.finish();
  return 0;
}
