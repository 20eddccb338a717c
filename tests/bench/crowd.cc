// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/crowd.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

#include "tests/bench/native_frames.h"

namespace c10dd::bench {
namespace {

// Linux gives out 28,232 ports by default, and searches long once half of them are in use.
constexpr unsigned kConnectionsOfAnAddress = 10'000;

constexpr unsigned kOpening = 1'000;  // at a time: more would overflow the listener's queue

std::size_t take(std::string_view in) {
  const auto frame = cut_success(in);
  return frame ? frame->size : 0;
}

std::string source_of(unsigned connection) {
  const unsigned block = connection / kConnectionsOfAnAddress;
  return block == 0 ? std::string() : "127.0.0." + std::to_string(1 + block);
}

}  // namespace

Crowd::Crowd(const Address& daemon, unsigned connections, unsigned members)
    : members_(members), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_.get() < 0) fail_with_errno("epoll_create1");
  for (unsigned i = 0; i < connections; ++i) {
    lines_.push_back(std::make_unique<Line>(daemon, source_of(i)));
    Bytes out(native::kMagic);
    for (unsigned rank = i; rank < members; rank += connections) {
      Hello hello = new_session();
      hello.rank = rank;
      append(out, rank, hello, connections);
    }
    lines_.back()->send(out);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = lines_.back().get();
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, lines_.back()->descriptor(), &event) != 0) {
      fail_with_errno("epoll_ctl");
    }
    if (i >= kOpening) receive(i - kOpening, connections);
  }
  for (unsigned i = connections - std::min(connections, kOpening); i < connections; ++i) {
    receive(i, connections);
  }
  acked_ = ++sequence_;
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
  for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i]->send(out[i]);
}

void Crowd::ask(const RequestOf& request_of) {
  send(encode(0, members_, request_of));
  receive_all();
}

void Crowd::receive(std::size_t connection, std::size_t connections) {
  lines_[connection]->receive((members_ - connection + connections - 1) / connections, take);
}

void Crowd::receive_all() {
  for (std::size_t i = 0; i < lines_.size(); ++i) receive(i, lines_.size());
  acked_ = sequence_;
}

void Crowd::receive_as_they_come(const std::function<void(std::size_t)>& on_answers) {
  std::array<epoll_event, 64> events;
  for (std::size_t missing = members_; missing > 0;) {
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    throw_if_interrupted();
    if (ready < 0 && errno != EINTR) fail_with_errno("epoll_wait");
    if (ready == 0) throw std::runtime_error(std::to_string(missing) + " answers do not come");
    for (int i = 0; i < ready; ++i) {
      Line& line = *static_cast<Line*>(events[static_cast<std::size_t>(i)].data.ptr);
      const std::size_t came = line.receive_some(take);
      missing -= came;
      on_answers(came);
    }
  }
  acked_ = sequence_;
}

void Crowd::settle() {
  const auto one_of_each_connection = static_cast<unsigned>(lines_.size());
  send(encode(0, one_of_each_connection, [](unsigned) { return Count{"bench"}; }));
  for (const auto& line : lines_) line->receive(1, take);
}

}  // namespace c10dd::bench
