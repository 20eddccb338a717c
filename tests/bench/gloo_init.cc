// SPDX-License-Identifier: Apache-2.0
// Scenario gloo-init. The ranks of a launch connect, join, and exchange the addresses of a process
// group over Gloo, as PyTorch's clients do: each sets its own, and waits for and gets those of all
// others, one request after the other. Measured from the first connect until the last rank is done.
// Every launch has keys of its own. The ranks are on the first core, the servers on the others.
// PyTorch 1.13.1 first exchanges host names; its ranks then ask the store every 10 ms whether all
// are done, which is left out.
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "tests/bench/cores.h"
#include "tests/bench/crowd.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/tcpstore_servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using tcpstore::Message;
using tcpstore::Query;

constexpr unsigned kInitMembers = 64;

/// What one rank says.
class GlooRank {
 public:
  GlooRank(tcpstore::Dialect dialect, unsigned rank, unsigned ranks, const std::string& group)
      : dialect_(dialect),
        old_(dialect != tcpstore::Dialect::v),
        rank_(rank),
        ranks_(ranks),
        hosts_("/" + group + "//rank_"),
        addresses_("/" + group + (old_ ? "//0/" : "/0//cpu//0/")),
        address_(old_ ? std::size_t{136} * (ranks - 1) : 154 + std::size_t{8} * ranks, 'a') {}

  /// Appends the next request, which has a reply, and those without one before it. Returns false
  /// after the last.
  bool next(Bytes& out) {
    if (stage_ == Stage::begin) {
      stage_ = Stage::join;
      if (!old_) {
        send(out, {.query = Query::validate, .number = tcpstore::kMagic});
        send(out, {.query = Query::ping, .number = rank_ + 1});
        return true;
      }
    }
    if (stage_ == Stage::join) {
      stage_ = old_ ? Stage::own_host : Stage::own_address;
      send(out, {.query = Query::add, .key = "init/", .number = 1});
      return true;
    }
    if (stage_ == Stage::own_host) {
      stage_ = Stage::hosts;
      set(hosts_, "host", out);
    }
    if (stage_ == Stage::hosts) {
      if (ask_peers(hosts_, rank_, 1, out)) return true;
      stage_ = Stage::own_address;
    }
    if (stage_ == Stage::own_address) {
      stage_ = Stage::addresses;
      set(addresses_, address_, out);
    }
    return ask_peers(addresses_, ranks_, 2, out);
  }

  /// Returns the size of the reply at the start of `in`, or 0 if it is incomplete.
  std::size_t take(std::string_view in) const {
    const auto reply = tcpstore::cut_reply(in, awaited_);
    if (!reply) throw std::runtime_error("gloo-init: " + reply.error().detail);
    return reply->has_value() ? (*reply)->size : 0;
  }

 private:
  enum class Stage { begin, join, own_host, hosts, own_address, addresses };

  void send(Bytes& out, const Message& message) {
    tcpstore::encode_message(out, dialect_, message);
    if (tcpstore::has_reply(message.query)) awaited_ = message.query;
  }
  void set(const Bytes& keys, std::string_view value, Bytes& out) {
    const Bytes key = keys + std::to_string(rank_);
    send(out, {.query = Query::set, .key = key, .value = value});
  }
  /// Appends one of the waits for the key of a peer below `end`, or the get after them. Returns
  /// false after the last peer.
  bool ask_peers(const Bytes& keys, unsigned end, unsigned waits, Bytes& out) {
    if (peer_ == rank_) ++peer_;
    if (peer_ >= end) {
      peer_ = 0;
      return false;
    }
    const Bytes key = keys + std::to_string(peer_);
    if (waited_++ < waits) {
      send(out, {.query = Query::wait, .keys = {key}});
      return true;
    }
    send(out, {.query = Query::get, .key = key});
    waited_ = 0;
    ++peer_;
    return true;
  }

  const tcpstore::Dialect dialect_;
  const bool old_;
  const unsigned rank_;
  const unsigned ranks_;
  const Bytes hosts_;
  const Bytes addresses_;
  const Bytes address_;
  Stage stage_ = Stage::begin;
  unsigned peer_ = 0;
  unsigned waited_ = 0;
  Query awaited_ = Query::ping;
};

struct Process {
  Process(const Address& server, const std::string& source, GlooRank its)
      : line(server, source), rank(std::move(its)) {}

  Line line;
  GlooRank rank;
};

/// An address of this machine, so that no pair of ports is soon used twice.
std::string init_source(unsigned launch, unsigned rank) {
  return "127.2." + std::to_string(launch % 250) + "." + std::to_string(1 + rank % 200);
}

/// Takes the reply of each ready process, and sends its next request. Returns how many are done.
unsigned serve(std::span<const epoll_event> ready) {
  unsigned done = 0;
  for (const epoll_event& event : ready) {
    auto& process = *static_cast<Process*>(event.data.ptr);
    const std::size_t came =
        process.line.receive_some([&](std::string_view in) { return process.rank.take(in); });
    if (came == 0) continue;
    Bytes out;
    if (!process.rank.next(out)) ++done;
    process.line.send(out);
  }
  return done;
}

std::chrono::nanoseconds launch(const TcpstoreServer& server, unsigned ranks, unsigned number) {
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll.get() < 0) fail_with_errno("epoll_create1");
  std::vector<std::unique_ptr<Process>> processes;
  const std::string group = "default_pg" + std::to_string(number);
  const Clock::time_point start = Clock::now();
  for (unsigned rank = 0; rank < ranks; ++rank) {
    processes.push_back(std::make_unique<Process>(server.address, init_source(number, rank),
                                                  GlooRank(server.dialect, rank, ranks, group)));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = processes.back().get();
    const int socket = processes.back()->line.descriptor();
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket, &event) != 0) fail_with_errno("epoll_ctl");
    Bytes out;
    processes.back()->rank.next(out);
    processes.back()->line.send(out);
  }
  std::array<epoll_event, 256> events;
  for (unsigned done = 0; done < ranks;) {
    constexpr auto kPatienceMs = std::chrono::milliseconds(kPatience).count();
    const int ready = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(kPatienceMs));
    throw_if_interrupted();
    if (ready < 0 && errno != EINTR) fail_with_errno("epoll_wait");
    if (ready == 0) {
      throw std::runtime_error("gloo-init: " + server.series.name + " does not reply, and only " +
                               std::to_string(done) + " of " + std::to_string(ranks) +
                               " ranks are done");
    }
    if (ready > 0) done += serve(std::span(events).first(static_cast<std::size_t>(ready)));
  }
  return Clock::now() - start;
}

}  // namespace

ScenarioResult run_gloo_init(const Options& options) {
  const unsigned members = options.members.value_or(kInitMembers);
  check_file_limit("gloo-init", members);
  std::unique_ptr<TcpstoreServers> started;
  {
    const Cores others(false);
    started = std::make_unique<TcpstoreServers>(options, TcpstoreServers::Endpoints::without);
  }
  const TcpstoreServers& servers = *started;
  const Cores first(true);
  ScenarioResult result;
  result.name = "gloo-init";
  result.counted = "launches";
  result.bars = "c10dd";
  result.round_seconds = options.seconds;
  result.parameters = {{"members", members}, {"awake", options.awake}};
  result.skipped = servers.skipped();
  for (const TcpstoreServer& server : servers.all()) result.series.push_back(server.series);
  unsigned launches = 0;
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < servers.all().size(); ++i) {
      const TcpstoreServer& server = servers.all()[i];
      launch(server, members, launches++);  // warms up
      Histogram all;
      std::chrono::nanoseconds total{0};
      const auto until =
          Clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(options.seconds * 1e9));
      do {
        const std::chrono::nanoseconds took = launch(server, members, launches++);
        all.add(took.count());
        total += took;
      } while (Clock::now() < until);
      result.series[i].rounds.push_back(sample_of(all, static_cast<double>(total.count()) * 1e-9));
    }
  }
  return result;
}

}  // namespace c10dd::bench
