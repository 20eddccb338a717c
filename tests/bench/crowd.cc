// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/crowd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <stdexcept>
#include <thread>

#include "protocol/limits.h"
#include "tests/bench/native_frames.h"

namespace c10dd::bench {
namespace {

// Linux gives out 28,232 ports by default, and searches long once half of them are in use.
constexpr unsigned kConnectionsOfAnAddress = 10'000;

constexpr std::size_t kOpening = 1'000;  // at a time: more would overflow the listener's queue
constexpr std::size_t kShaking = 32;     // TLS handshakes under way
constexpr unsigned kOtherFiles = 64;

constexpr std::size_t kSlices = 10;  // of the connections, that beat one after the other
constexpr std::chrono::milliseconds kBetweenBeats = limits::kHeartbeatInterval / kSlices;

/// The first reply that is to no heartbeat, with those before it.
std::optional<native::Frame<native::ReplyHeader>> cut_answer(std::string_view in) {
  std::size_t beats = 0;
  for (;;) {
    auto frame = cut_success(in.substr(beats));
    if (!frame) return std::nullopt;
    if (frame->header.op == Ping::op.code) {
      beats += frame->size;
      continue;
    }
    frame->size += beats;
    return frame;
  }
}

std::size_t take(std::string_view in) {
  const auto frame = cut_answer(in);
  return frame ? frame->size : 0;
}

std::string source_of(std::size_t connection) {
  const std::size_t block = connection / kConnectionsOfAnAddress;
  return block == 0 ? std::string() : "127.0.0." + std::to_string(1 + block);
}

/// Spread as random ones are.
std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9;
  number = (number ^ (number >> 27)) * 0x94D049BB133111EB;
  return number ^ (number >> 31);
}

}  // namespace

void check_file_limit(const std::string& scenario, unsigned connections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= connections + kOtherFiles) return;
  throw std::runtime_error(scenario + ": " + std::to_string(connections) +
                           " connections need as many open files and " +
                           std::to_string(kOtherFiles) + " more, but the limit is " +
                           std::to_string(limit.rlim_cur) + ": raise it with ulimit -n");
}

Crowd::Crowd(const Address& daemon, unsigned connections, unsigned members)
    : members_(members), name_(random_number()), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_.get() < 0) fail_with_errno("epoll_create1");
  open(daemon, connections);
}

void Crowd::reconnect(const Address& daemon) {
  const std::size_t connections = lines_.size();
  lines_.clear();
  pings_.clear();
  greeted_ = 0;
  open(daemon, connections);
}

void Crowd::open(const Address& daemon, std::size_t connections) {
  const auto greeted = [&] {
    await_welcome(greeted_, connections);
    ++greeted_;
    beat();
  };
  pings_.resize(connections);
  hello_ = new_session();
  hello_.credential = credential_of(daemon);
  const std::size_t at_once = daemon.tls ? kShaking : 1;
  // A line beats when it is greeted. Handshakes take so long that its members would be lost before.
  const std::size_t opening = daemon.tls ? kShaking : kOpening;
  for (std::size_t i = 0; i < connections; ++i) {
    if (i == lines_.size()) connect(daemon, std::min(at_once, connections - i));
    greet(i, connections);
    if (i >= opening) greeted();
    beat();
  }
  while (greeted_ < connections) greeted();
  acked_ = ++sequence_;
}

/// Adds some lines. They shake hands on two threads, because a handshake takes OpenSSL about a
/// millisecond here, several times as long as in the daemon.
void Crowd::connect(const Address& daemon, std::size_t lines) {
  const std::size_t first = lines_.size();
  for (std::size_t i = first; i < first + lines; ++i) {
    lines_.push_back(std::make_unique<Line>(daemon, source_of(i)));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, lines_.back()->descriptor(), &event) != 0) {
      fail_with_errno("epoll_ctl");
    }
  }
  if (!daemon.tls) return;
  const auto shake_hands = [&](std::size_t from) {
    for (std::size_t i = from; i < lines_.size(); i += 2) lines_[i]->shake_hands();
  };
  auto others = std::async(std::launch::async, shake_hands, first + 1);
  shake_hands(first);
  others.get();
}

/// Says hello for all members of a connection.
void Crowd::greet(std::size_t connection, std::size_t connections) {
  Bytes out(native::kMagic);
  for (std::size_t rank = connection; rank < members_; rank += connections) {
    append_hello(out, rank, connections);
  }
  lines_[connection]->send(out);
}

void Crowd::append_hello(Bytes& out, std::size_t rank, std::size_t connections) {
  hello_.session = {mixed(name_ + rank), name_ ^ rank};
  hello_.rank = static_cast<std::int64_t>(rank);
  append(out, static_cast<unsigned>(rank), hello_, connections);
}

/// Takes the answers to the hellos of a connection. Says those hellos again whose job is still
/// being loaded.
void Crowd::await_welcome(std::size_t connection, std::size_t connections) {
  std::size_t missing = (members_ - connection + connections - 1) / connections;
  while (missing > 0) {
    Bytes again;
    Duration pause{0};
    std::size_t refused = 0;
    receive_from(connection, missing, [&](std::string_view in) -> std::size_t {
      const auto reply = cut_hello_reply(in);
      if (!reply) return 0;
      if (reply->again) {
        append_hello(again, (reply->channel - 1) * connections + connection, connections);
        pause = std::max(pause, *reply->again);
        ++refused;
      }
      return reply->size;
    });
    missing = refused;
    if (missing == 0) return;
    rest(pause);
    lines_[connection]->send(again);
  }
}

void Crowd::leave() {
  ask([](unsigned) { return Goodbye{}; });
}

void Crowd::append(Bytes& out, unsigned member, const Request& request,
                   std::size_t connections) const {
  native::RequestHeader header;
  header.channel = static_cast<std::uint32_t>(member / connections) + 1;
  header.sequence = sequence_;
  header.acked_below = acked_;
  native::encode_request(out, header, request);
}

std::vector<Bytes> Crowd::encode(unsigned from, unsigned to, const RequestOf& request_of) {
  std::vector<Bytes> out(lines_.size());
  for (unsigned rank = from; rank < to; ++rank) {
    append(out[rank % lines_.size()], rank, request_of(rank), lines_.size());
  }
  ++sequence_;
  return out;
}

void Crowd::send(const std::vector<Bytes>& out) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (!pings_[i].ended) lines_[i]->send(out[i]);
    if (!out[i].empty()) pings_[i].asked = true;
    beat();
  }
}

void Crowd::ask(const RequestOf& request_of) {
  send(encode(0, members_, request_of));
  receive_all();
}

void Crowd::ask_some(unsigned from, unsigned to, const RequestOf& request_of) {
  std::size_t asked = 0;
  std::vector<Bytes> out = encode(from, to, request_of);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (pings_[i].ended) out[i].clear();
  }
  for (unsigned rank = from; rank < to; ++rank) asked += pings_[rank % lines_.size()].ended ? 0 : 1;
  send(out);
  receive_members([](std::size_t, std::string_view in) { return take(in); }, asked,
                  [](std::size_t) {});
}

void Crowd::drop(unsigned member) {
  const std::size_t connection = member % lines_.size();
  pings_[connection].ended = true;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, lines_[connection]->descriptor(), nullptr);
  ::shutdown(lines_[connection]->descriptor(), SHUT_RDWR);
}

void Crowd::receive(std::size_t connection, std::size_t connections) {
  receive_from(connection, (members_ - connection + connections - 1) / connections, take);
}

/// Receives so many replies on a connection. All connections beat meanwhile.
void Crowd::receive_from(std::size_t connection, std::size_t messages,
                         const std::function<std::size_t(std::string_view)>& take) {
  Line& line = *lines_[connection];
  line.receive(messages, take, [&] {
    if (!beats_) return;
    const Clock::time_point end = Clock::now() + kPatience;
    pollfd ready{line.descriptor(), POLLIN, 0};
    do {
      beat();
      throw_if_interrupted();
    } while (::poll(&ready, 1, static_cast<int>(kBetweenBeats.count())) == 0 && Clock::now() < end);
  });
}

void Crowd::receive_all() {
  for (std::size_t i = 0; i < lines_.size(); ++i) receive(i, lines_.size());
  acked_ = sequence_;
}

void Crowd::receive_as_they_come(const std::function<void(std::size_t)>& on_reply) {
  receive_members([](std::size_t, std::string_view in) { return take(in); }, members_, on_reply);
}

void Crowd::receive_each(const OnReply& on_reply) {
  const auto decode = [&](std::size_t connection, std::string_view in) -> std::size_t {
    const auto frame = cut_answer(in);
    if (!frame) return 0;
    Reply reply = ReplyBody(Done{});
    const auto good =
        native::decode_reply(frame->header.op, frame->header.kind, frame->body, reply);
    if (!good) throw std::runtime_error("c10dd: " + good.error().detail);
    on_reply(static_cast<unsigned>((frame->header.channel - 1) * lines_.size() + connection),
             *reply);
    return frame->size;
  };
  receive_members(decode, members_, [](std::size_t) {});
}

void Crowd::receive_members(const TakeOn& take, std::size_t members,
                            const std::function<void(std::size_t)>& on_reply) {
  std::array<epoll_event, 64> events;
  Clock::time_point last = Clock::now();
  for (std::size_t missing = members; missing > 0;) {
    beat();
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(kBetweenBeats.count()));
    throw_if_interrupted();
    if (ready < 0 && errno != EINTR) fail_with_errno("epoll_wait");
    if (Clock::now() > last + kPatience) {
      throw std::runtime_error(std::to_string(missing) + " replies did not arrive");
    }
    for (int i = 0; i < ready; ++i) {
      const std::size_t connection = events[static_cast<std::size_t>(i)].data.u64;
      const std::size_t came = lines_[connection]->receive_some(
          [&](std::string_view in) { return take(connection, in); });
      if (came == 0) continue;
      pings_[connection].asked = false;
      missing -= came;
      last = Clock::now();
      on_reply(came);
    }
  }
  acked_ = sequence_;
}

void Crowd::settle() {
  const auto one_of_each_connection = static_cast<unsigned>(lines_.size());
  send(encode(0, one_of_each_connection, [](unsigned) { return Count{"bench"}; }));
  for (std::size_t i = 0; i < lines_.size(); ++i) receive_from(i, 1, take);
}

void Crowd::rest(Clock::duration time) {
  const Clock::time_point until = Clock::now() + time;
  while (Clock::now() < until) {
    beat();
    std::this_thread::sleep_until(std::min(until, Clock::now() + kBetweenBeats));
  }
}

/// A slice of the connections, if it is time: so all do in an interval, but not at once. A request
/// is a sign of life of its own session only, so it makes no heartbeat of several sessions
/// needless.
void Crowd::beat() {
  if (!beats_) return;
  const Clock::time_point now = Clock::now();
  next_beat_ = std::max(next_beat_, now - limits::kHeartbeatInterval);
  for (; next_beat_ <= now; next_beat_ += kBetweenBeats) {
    native::RequestHeader header;
    header.channel = 1;
    header.acked_below = acked_;
    Bytes ping;
    native::encode_request(ping, header, Ping{});
    for (std::size_t i = slice_; i < greeted_; i += kSlices) {
      PingState& ping_state = pings_[i];
      const bool alone = members_ <= lines_.size();
      ping_state.skipped = std::exchange(ping_state.asked, false) && !ping_state.skipped && alone;
      if (!ping_state.skipped && !ping_state.ended) lines_[i]->send(ping);
    }
    slice_ = (slice_ + 1) % kSlices;
  }
}

}  // namespace c10dd::bench
