// SPDX-License-Identifier: Apache-2.0
// c10dd-bench: named scenarios against the bare echo, the daemon, Redis and etcd, measured in
// turns.
//
//     echo         a bare epoll echo of the bytes of get: the limit of this machine
//     get          one key of each connection is read; engine memory
//     set          one key of each connection is written; survives a dead process: RocksDB with
//                  durability os, Redis with appendfsync everysec
//     set-durable  likewise, survives a dead machine: durability fsync, appendfsync always, etcd
//     barrier      --members sessions over --connections meet; RocksDB with fsync
//     wait-fanout  --waiters sessions wait for a key, over 1,000 connections; likewise
//     restart-load a daemon with --keys keys is killed; until it answers again; memory of a key
//     idle         memory of a connection, with 10,000 of them
//     join         --members (16,384) members over --connections (one each) form a group and meet;
//                  memory of one
//     death        one of --members (1,000) is killed, again and again; until all others know
//     silent       likewise, its network link is set down
//     restart      the daemon of a group of --members (10,000) is killed; until all have their
//                  places again
//     takeover     --daemons (2) daemons on one Redis; the one that serves the job of --clients
//                  (1,000) is killed; until another one serves them
//     collective   what a call of a process group of one rank costs its caller
//     all-reduce   all_reduce over Gloo among --members (2) processes, and Gloo alone in the same
//                  processes; --against torch,mpi: PyTorch's Gloo, and MPI
//     synthetic    --ranks (1,000) ranks on --hosts connections report what their groups (--groups)
//                  do; from a --fault until the daemon names it
//     tcpstore-get, tcpstore-set, tcpstore-add, tcpstore-multi-get
//                  the requests of PyTorch's TCPStore; --against torch: PyTorch's own servers
//     storm        --connections (10,000) clients of PyTorch's TCPStore connect and join at once;
//                  --against torch, likewise
//     gloo-init    --members (64) ranks exchange the addresses of a process group over a TCPStore,
//                  as PyTorch's Gloo does; --against torch, likewise
//     instructions instructions that each request costs, counted by valgrind; --only shows the
//                  functions of some cases
//
// With --tls the connections of get, set, idle and restart are encrypted.
//
// Exit codes: 0 measured; 1 a server did not start, died or answered with an error; 64 bad option.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>

#include "protocol/limits.h"
#include "tests/bench/line.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

constexpr int kBadOption = 64;

struct Scenario {
  const char* name;
  ScenarioResult (*run)(const Options&);
};

template <Operation kOperation, bool kEchoOnly = false>
ScenarioResult run(const char* name, const char* engine, const char* durability,
                   const char* appendfsync, const Options& options) {
  return run_load_scenario({name, kOperation, engine, durability, appendfsync, kEchoOnly}, options);
}

constexpr Scenario kScenarios[] = {
    {"echo", [](const Options& o) { return run<Operation::get, true>("echo", "", "", "", o); }},
    {"get",
     [](const Options& o) { return run<Operation::get>("get", "memory:", "os", "everysec", o); }},
    {"set",
     [](const Options& o) {
       return run<Operation::set>("set", "rocksdb:DIR", "os", "everysec", o);
     }},
    {"set-durable",
     [](const Options& o) {
       return run<Operation::set>("set-durable", "rocksdb:DIR", "fsync", "always", o);
     }},
    {"barrier", run_barriers},
    {"wait-fanout", run_wait_fanout},
    {"restart-load", run_restart_load},
    {"idle", run_idle},
    {"join", run_join},
    {"death", run_death},
    {"silent", run_silent},
    {"restart", run_restart},
    {"takeover", run_takeover},
    {"collective", run_collective},
#if C10DD_WITH_GLOO
    {"all-reduce", run_all_reduce},
#endif
    {"tcpstore-get", run_tcpstore_get},
    {"tcpstore-set", run_tcpstore_set},
    {"tcpstore-add", run_tcpstore_add},
    {"tcpstore-multi-get", run_tcpstore_multi_get},
    {"synthetic", run_synthetic},
    {"storm", run_storm},
    {"gloo-init", run_gloo_init},
    {"instructions", run_instructions},
};

Address parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, address.port);
    if (parsed.ec != std::errc() || parsed.ptr != end) address.port = 0;
  }
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host.empty() || address.port == 0) {
    throw CLI::ValidationError("\"" + text + "\" is not an address: use HOST:PORT");
  }
  return address;
}

/// NAME or NAME=HOST:PORT.
Peer parse_peer(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  Peer peer;
  if (name == "etcd") {
    peer.kind = Peer::Kind::etcd;
  } else if (name == "torch") {
    peer.kind = Peer::Kind::torch;
  } else if (name == "mpi") {
    peer.kind = Peer::Kind::mpi;
  } else if (name != "redis") {
    throw CLI::ValidationError("--against: unknown peer \"" + name +
                               "\": use redis, etcd, torch or mpi");
  }
  if (equals != std::string::npos) peer.running = parse_address(text.substr(equals + 1));
  return peer;
}

struct CommandLine {
  Options options;
  std::vector<std::string> scenarios;
  std::string json;
};

/// The peers, and the scenarios that compare with them; an empty list: all scenarios.
struct Comparable {
  Peer::Kind kind;
  const char* name;
  std::vector<std::string> scenarios;
};
const std::vector<Comparable>& comparable() {
  static const std::vector<Comparable> all = {
      {Peer::Kind::redis, "redis", {}},             // a scenario without requests leaves it out
      {Peer::Kind::etcd, "etcd", {"set-durable"}},  // etcd always syncs
      {Peer::Kind::torch,
       "torch",
       {"barrier", "all-reduce", "tcpstore-get", "tcpstore-set", "tcpstore-add",
        "tcpstore-multi-get", "storm", "gloo-init"}},
      {Peer::Kind::mpi, "mpi", {"all-reduce"}}};
  return all;
}

/// Each peer once, and only where it has something that compares.
void check_peers(const CommandLine& line) {
  std::set<Peer::Kind> kinds;
  for (const Peer& peer : line.options.against) {
    if (!kinds.insert(peer.kind).second) throw CLI::ValidationError("--against names a peer twice");
    const auto& entry = *std::ranges::find(comparable(), peer.kind, &Comparable::kind);
    for (const std::string& name : line.scenarios) {
      if (entry.scenarios.empty() || std::ranges::count(entry.scenarios, name) > 0) continue;
      std::string names;
      for (const std::string& one : entry.scenarios) names += (names.empty() ? "" : ", ") + one;
      throw CLI::ValidationError("--against " + std::string(entry.name) + " is not available for " +
                                 name + ", only for " + names);
    }
  }
}

void check_read_rate(const CommandLine& line) {
  if (line.options.read_rate == 0) return;
  for (const std::string& name : line.scenarios) {
    if (name == "restart-load") continue;
    throw CLI::ValidationError("--read-rate: not available for " + name +
                               ", only for restart-load");
  }
}

/// Only servers that are started here and sync by way of the C library can be slowed down.
void check_sync_delay(const CommandLine& line) {
  if (line.options.sync_delay == 0) return;
  const auto refuse = [](const std::string& why) {
    throw CLI::ValidationError("--sync-delay: " + why);
  };
  for (const std::string& name : line.scenarios) {
    if (name != "set-durable") refuse("not available for " + name + ", only for set-durable");
  }
  if (line.options.daemon) refuse("cannot delay a running daemon: leave out --daemon");
  for (const Peer& peer : line.options.against) {
    if (peer.running) refuse("cannot delay a running server: give --against only its name");
    if (peer.kind == Peer::Kind::etcd) {
      refuse("cannot delay etcd, which syncs without the C library");
    }
  }
}

/// Only servers that are started here have a CA that the connections know.
void check_tls(const CommandLine& line) {
  if (!line.options.tls) return;
  const auto refuse = [](const std::string& why) { throw CLI::ValidationError("--tls: " + why); };
#if !C10DD_WITH_TLS
  refuse("this program was built without OpenSSL; install libssl-dev and build it again");
#endif
  static const std::set<std::string> encrypted = {"get", "set", "idle", "restart"};
  for (const std::string& name : line.scenarios) {
    if (encrypted.contains(name)) continue;
    refuse("not available for " + name + ", only for get, set, idle and restart");
  }
  if (line.options.daemon) refuse("not for a running daemon: leave out --daemon");
  if (line.options.daemons) refuse("not for several daemons: leave out --daemons");
  for (const Peer& peer : line.options.against) {
    if (peer.running) refuse("not for a running server: give --against only its name");
  }
}

/// Adds the options that say how much is measured.
void add_sizes(CLI::App& app, Options& o) {
  app.add_option("--connections,--clients,--hosts", o.connections,
                 "number of connections; default: the scenario's number, otherwise 1")
      ->check(CLI::Range(1U, 65536U));
  app.add_option("--depth", o.depth, "open requests of each connection")
      ->check(CLI::Range(1U, 512U));
  app.add_option("--members,--ranks", o.members,
                 "members of a barrier (1000), group or launch; default: the scenario's number")
      ->check(CLI::Range(2U, limits::kWorldSize));
  app.add_option("--times", o.times,
                 "how often a member is lost in a round; default: the scenario's number")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--daemons", o.daemons,
                 "number of daemons on one Redis: for takeover (2), or for one more row of a load")
      ->check(CLI::Range(2U, 16U));
  app.add_option(
         "--groups", o.groups,
         "for synthetic: KIND=SIZE,... of the groups of each rank, besides one of all ranks")
      ->type_name("KIND=SIZE,...");
  app.add_option("--fault", o.fault, "for synthetic: what happens to one rank")
      ->check(CLI::IsMember(
          {"none", "forming", "kill", "silence", "missing", "mismatch", "deadlock", "straggler"}));
  app.add_option("--at", o.at, "for synthetic: seconds before the fault")
      ->check(CLI::Range(1.0, 3600.0));
  app.add_option("--waiters", o.waiters, "for wait-fanout: sessions that wait")
      ->check(CLI::Range(1U, 100'000U));
  app.add_option("--keys", o.keys, "for restart-load: number of keys")
      ->check(CLI::Range(1U, static_cast<unsigned>(limits::kKeysPerJob)));
  app.add_option("--seconds", o.seconds,
                 "length of a round; a load first warms up for a fifth of this time")
      ->check(CLI::Range(0.01, 3600.0));
  app.add_option("--rounds", o.rounds, "number of rounds; each measures every target once")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--key-bytes", o.key_bytes, "size of each key")
      ->check(CLI::Range(std::size_t{16}, limits::kKeyBytes));
  app.add_option("--value-bytes", o.value_bytes, "size of each value")
      ->check(CLI::Range(std::size_t{0}, limits::kValueBytes));
}

/// Exits by itself after --help and on a bad option.
CommandLine parse(int argc, char** argv) {
  CommandLine line;
  Options& o = line.options;
  std::string daemon;
  std::vector<std::string> against;
  CLI::App app{"Measures the daemon, a bare echo, Redis and etcd in turns on one machine."};
  app.set_help_flag("-h,--help", "print this help and exit");
  std::vector<std::string> names;
  for (const Scenario& scenario : kScenarios) names.emplace_back(scenario.name);
  app.add_option("SCENARIO", line.scenarios, "scenarios to measure")
      ->required()
      ->check(CLI::IsMember(names));
  app.option_defaults()->take_last()->always_capture_default();
  add_sizes(app, o);
  app.add_option("--only", o.only,
                 "for instructions: only cases whose names contain TEXT, by function")
      ->type_name("TEXT");
  app.add_option("--budgets", o.budgets,
                 "for instructions: fail if a case costs 3 % more than FILE says")
      ->type_name("FILE");
  app.add_option("--engine", o.engine,
                 "engine of the daemon that is started; default: the scenario's engine; "
                 "the URL redis: also starts a Redis")
      ->type_name("URL");
  app.add_option("--daemon", daemon, "measure this running daemon instead of starting one")
      ->type_name("HOST:PORT");
  app.add_option("--against", against,
                 "also measure redis, etcd, torch or mpi: the server at HOST:PORT, or a new one")
      ->type_name("NAME[=HOST:PORT],...")
      ->delimiter(',')
      ->take_all()
      ->default_str("");
  app.add_flag("--proxy", o.proxy,
               "for tcpstore-*: also measure through a node proxy, as under c10drun");
  app.add_flag("--tls", o.tls,
               "for get, set, idle and restart: over TLS; a load also measures the daemon without");
  app.add_flag("--awake", o.awake,
               "keep idle cores awake: waking a halted core can take longer than a reply")
      ->default_str("");
  app.add_option("--sync-delay", o.sync_delay,
                 "delay each sync of the servers by MS milliseconds, as on a slower disk")
      ->type_name("MS")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--read-rate", o.read_rate,
                 "for restart-load: the daemon reads its files at MIB per second, as from a slower "
                 "disk")
      ->type_name("MIB")
      ->check(CLI::Range(0.01, 100000.0));
  app.add_option("--json", line.json, "also write the results as JSON; - is the standard output")
      ->type_name("FILE|-")
      ->expected(0, 1)
      ->default_str("-");
  try {
    app.parse(argc, argv);
    if (!daemon.empty()) o.daemon = parse_address(daemon);
    for (const std::string& peer : against) o.against.push_back(parse_peer(peer));
    check_peers(line);
    check_sync_delay(line);
    check_read_rate(line);
    check_tls(line);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? 0 : kBadOption);
  }
  return line;
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void measure(const CommandLine& line) {
  std::ofstream file;
  if (!line.json.empty() && line.json != "-") {
    file.open(line.json);
    if (!file) throw std::runtime_error("cannot write " + line.json);
  }
  std::ostream& people = line.json == "-" ? std::cerr : std::cout;
  if (line.options.read_rate > 0) slow_reads_down(line.options.read_rate * 1024 * 1024);
  if (line.options.sync_delay > 0) {
    delay_syncs(std::chrono::microseconds(std::llround(line.options.sync_delay * 1'000)));
  }
  const std::vector<Child> spinners = line.options.awake ? keep_awake() : std::vector<Child>();
  std::vector<ScenarioResult> results;
  for (const std::string& name : line.scenarios) {
    const auto* scenario = std::find_if(std::begin(kScenarios), std::end(kScenarios),
                                        [&](const Scenario& s) { return s.name == name; });
    results.push_back(scenario->run(line.options));
    print_table(people, results.back());
  }
  if (line.json.empty()) return;
  print_json(line.json == "-" ? std::cout : file, results);
}

}  // namespace
}  // namespace c10dd::bench

int main(int argc, char** argv) {
  const c10dd::bench::CommandLine line = c10dd::bench::parse(argc, argv);
  try {
    c10dd::bench::raise_file_limit();
    c10dd::bench::catch_interrupts();
    c10dd::bench::measure(line);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "c10dd-bench: " << e.what() << "\n";
    return 1;
  }
}
