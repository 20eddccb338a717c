// SPDX-License-Identifier: Apache-2.0
// The precedence of the layers of options, and the message of every refusal.
#include "daemon/config/options.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "daemon/config/option_table.h"
#include "daemon/config/option_values.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;

struct Ran {
  ParsedOptions parsed;
  std::string out;
  std::string error;
};

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"C10DD_CONFIG", "C10DD_LISTEN", "C10DD_ALLOW_INSECURE_LISTEN", "C10DD_ENGINE",
          "C10DD_DURABILITY", "C10DD_LOG_LEVEL", "C10DD_DRAIN_TIMEOUT", "XDG_STATE_HOME"}) {
      ::unsetenv(name);
    }
    ::setenv("STATE_DIRECTORY", "/srv/state:/srv/second", 1);
  }

  Ran run(std::vector<std::string> arguments) const {
    std::vector<const char*> argv = {"c10dd"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Ran ran;
    ran.parsed = parse_options(static_cast<int>(argv.size()), argv.data());
    ran.out = testing::internal::GetCapturedStdout();
    ran.error = testing::internal::GetCapturedStderr();
    return ran;
  }

  Options accepted(const std::vector<std::string>& arguments) const {
    const Ran ran = run(arguments);
    EXPECT_FALSE(ran.parsed.exit) << ran.out << ran.error;
    EXPECT_EQ(ran.out + ran.error, "");
    return ran.parsed.options;
  }

  std::string refused(const std::vector<std::string>& arguments) const {
    const Ran ran = run(arguments);
    EXPECT_TRUE(ran.parsed.exit);
    EXPECT_EQ(ran.parsed.exit_code, 64);
    EXPECT_EQ(ran.out, "");
    return ran.error;
  }

  std::string refused_file(const std::string& text) const {
    std::string error = refused({"--config", file(text)});
    const std::size_t at = error.find(directory_.path());
    if (at != std::string::npos) error.replace(at, directory_.path().size(), "DIR");
    return error;
  }

  std::string file(const std::string& text) const {
    const std::string path = directory_.path() + "/c10dd.toml";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  TemporaryDirectory directory_;
};

constexpr const char* kKnownKeys =
    "use one of listen, allow_insecure_listen, tls, grants, listen_metrics, "
    "metrics_without_sentences, protocols, tcpstore_job, tcpstore_from, "
    "tcpstore_legacy, endpoint_ports, http_hosts, engine, durability, lease, advertise, "
    "redis_ca, allow_insecure_redis, redis_accept_weak_durability, mark, shards, "
    "log_level, "
    "drain_timeout, run_grace, session_expiry, idle_timeout, max_connections, "
    "max_connections_per_address, max_jobs, max_bytes, max_keys_per_job, max_bytes_per_job, "
    "max_sessions_per_job, max_waits_per_job, max_queue_items_per_job, disk_reserve, disk_minimum, "
    "disk_ballast\n";

TEST_F(OptionsTest, DefaultsServeLoopbackFromTheStateDirectory) {
  const Options options = accepted({});
  EXPECT_EQ(options.listen, "127.0.0.1:29500");
  EXPECT_EQ(options.listen_host, "127.0.0.1");
  EXPECT_EQ(options.listen_port, 29500);
  EXPECT_FALSE(options.allow_insecure_listen);
  EXPECT_EQ(options.engine, "rocksdb:/srv/state");
  EXPECT_EQ(options.durability, store::Durability::fsync);
  EXPECT_EQ(options.log_level, "info");
  EXPECT_EQ(options.drain_timeout, milliseconds(5000));
}

TEST_F(OptionsTest, StateDirectoryIsTheUsersOwnWithoutSystemd) {
  ::unsetenv("STATE_DIRECTORY");
  ::setenv("XDG_STATE_HOME", "/home/ada/state", 1);
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(accepted({}).engine, root ? "rocksdb:/var/lib/c10dd" : "rocksdb:/home/ada/state/c10dd");
}

TEST_F(OptionsTest, FlagBeatsVariableBeatsFileBeatsDefault) {
  const std::string config = file(
      "listen = \"127.0.0.1:1\"\nlog_level = \"error\"\ndrain_timeout = 1.5\n"
      "durability = \"os\"\nengine = \"redis://10.0.0.1:6379\"\n");
  ::setenv("C10DD_LISTEN", "127.0.0.1:2", 1);
  ::setenv("C10DD_LOG_LEVEL", "warn", 1);
  ::setenv("C10DD_DRAIN_TIMEOUT", "2", 1);
  ::setenv("C10DD_ENGINE", "", 1);
  const Options options = accepted(
      {"--config", config, "--listen=127.0.0.1:3", "--log-level", "trace", "--log-level", "debug"});
  EXPECT_EQ(options.listen_port, 3);
  EXPECT_EQ(options.log_level, "debug") << "the last flag counts";
  EXPECT_EQ(options.drain_timeout, milliseconds(2000));
  EXPECT_EQ(options.durability, store::Durability::os);
  EXPECT_EQ(options.engine, "redis://10.0.0.1:6379") << "an empty variable is not set";
  EXPECT_FALSE(options.allow_insecure_listen);
}

TEST_F(OptionsTest, VariableNamesTheFileAndAFlagNamesAnother) {
  const std::string config = file("drain_timeout = 7\n");
  ::setenv("C10DD_CONFIG", config.c_str(), 1);
  EXPECT_EQ(accepted({}).drain_timeout, milliseconds(7000));
  EXPECT_EQ(accepted({"--config", "/dev/null"}).drain_timeout, milliseconds(5000));
}

TEST_F(OptionsTest, VariableThatIsNearlyAnOptionIsWarnedOf) {
  ::setenv("C10DD_ENGIN", "memory:", 1);
  const Ran ran = run({});
  ::unsetenv("C10DD_ENGIN");
  EXPECT_FALSE(ran.parsed.exit);
  EXPECT_EQ(ran.error, "c10dd: ignored unknown variable C10DD_ENGIN; did you mean C10DD_ENGINE?\n");
  for (const char* others :
       {"C10DD_URL", "C10DD_JOB", "C10DD_RUN", "C10DD_LOG", "C10DD_ADDR", "C10DD_WORLD_SIZE",
        "C10DD_LOCAL_RANK", "C10DD_NODE_RANK", "C10DD_GENERATION", "C10DD_BACKEND_PATH"}) {
    ::setenv(others, "1", 1);
    EXPECT_EQ(run({}).error, "") << others;
    ::unsetenv(others);
  }
}

TEST_F(OptionsTest, NamesForHostsAreChecked) {
  EXPECT_EQ(refused({"--http-hosts", "a b"}),
            "c10dd: --http-hosts: invalid host name \"a b\" in \"a b\"; use names or addresses "
            "without ports, separated by commas, for example head,head.lan\n");
}

TEST_F(OptionsTest, EveryOptionHasASentence) {
  for (const Option& option : all_options()) EXPECT_FALSE(option.sentence.empty()) << option.name;
}

TEST_F(OptionsTest, ForeignVariablesAreNotRead) {
  ::setenv("C10DD_RANK", "many", 1);
  accepted({});
  ::unsetenv("C10DD_RANK");
}

TEST_F(OptionsTest, ListenTakesNamesAndBothKindsOfAddress) {
  EXPECT_EQ(accepted({"--listen", "[::1]:0"}).listen_host, "::1");
  EXPECT_EQ(accepted({"--listen", "localhost:65535"}).listen_port, 65535);
  EXPECT_EQ(accepted({"--listen", "[::ffff:127.0.0.1]:1"}).listen_host, "::ffff:127.0.0.1");
  const Options options = accepted({"--allow-insecure-listen", "--listen", "[fe80::1%eth0]:9"});
  EXPECT_EQ(options.listen_host, "fe80::1%eth0");
}

TEST_F(OptionsTest, ListenRefusalsShowTheFormThatIsWanted) {
  const std::string want = "; use HOST:PORT, for example 127.0.0.1:29500 or [::1]:29500\n";
  const std::string port = "\", which is not an integer from 0 to 65535; use 0 for any free port\n";
  EXPECT_EQ(refused({"--listen", "x"}), "c10dd: --listen: \"x\" has no port" + want);
  EXPECT_EQ(refused({"--listen", ":1"}),
            "c10dd: --listen: \":1\" is not an address: the host is empty" + want);
  EXPECT_EQ(refused({"--listen", "a b:1"}), "c10dd: --listen: \"a b:1\" has no valid host" + want);
  EXPECT_EQ(refused({"--listen", "[::x]:1"}),
            "c10dd: --listen: \"[::x]:1\" has no valid IPv6 address in brackets" + want);
  EXPECT_EQ(refused({"--listen", "::1:5"}),
            "c10dd: --listen: \"::1:5\" is not an address: there are several colons: write "
            "host:port, and an IPv6 host in brackets, as in [::1]:29500" +
                want);
  for (const std::string bad : {"", "-1", "65536", "1x", "0x1", " 1"}) {
    EXPECT_EQ(refused({"--listen", "localhost:" + bad}),
              "c10dd: --listen: \"localhost:" + bad + "\" has port \"" + bad + port);
  }
}

TEST_F(OptionsTest, AddressesThatOthersReachNeedTheLoudOption) {
  const std::string end =
      " can be reached from other machines, and without --tls whoever can connect to the port can "
      "read and change every job; run c10ddctl ca init and add --tls DIR, listen on 127.0.0.1, or "
      "accept the risk with --allow-insecure-listen\n";
  EXPECT_EQ(refused({"--listen", "0.0.0.0:1"}), "c10dd: --listen: 0.0.0.0" + end);
  EXPECT_EQ(refused({"--listen", "[::]:1"}), "c10dd: --listen: ::" + end);
  EXPECT_EQ(refused({"--listen", "node-7:1"}), "c10dd: --listen: node-7" + end);
  EXPECT_EQ(refused({"--listen", "127.1:1"}), "c10dd: --listen: 127.1" + end);
  EXPECT_EQ(refused({"--listen", "0.0.0.0:1", "--allow-insecure-listen=false"}),
            "c10dd: --listen: 0.0.0.0" + end);
  for (const char* far :
       {"redis://head:6379", "redis://u:p@10.0.0.7:1/x", "redis+sentinel://127.0.0.1:1,b:2/m"}) {
    EXPECT_EQ(refused({"--tls", "d", "--engine", far}),
              "c10dd: --engine: the rows of all jobs would travel to " +
                  store::without_password(far) +
                  " in the clear, although --tls is given; use rediss://, or accept the risk with "
                  "--allow-insecure-redis\n");
    EXPECT_EQ(accepted({"--tls", "d", "--engine", far, "--allow-insecure-redis"}).engine, far);
    EXPECT_EQ(accepted({"--engine", far}).engine, far) << "nobody is promised anything";
  }
  for (const char* near : {"redis://127.0.0.1:6379/x", "redis://:p%40@localhost", "rediss://head:1",
                           "redis+sentinel://127.0.0.1:1,[::1]:2/m", "rediss+sentinel://a,b/m"}) {
    EXPECT_EQ(accepted({"--tls", "d", "--engine", near}).engine, near);
  }
  EXPECT_EQ(refused({"--redis-ca", "ca.crt", "--engine", "redis://u:p@localhost"}),
            "c10dd: --redis-ca: the engine redis://***@localhost does not use TLS to a Redis; use "
            "rediss:// or rediss+sentinel://, or leave it out\n");
  EXPECT_EQ(accepted({"--redis-ca", "ca.crt", "--engine", "rediss+sentinel://a/m"}).redis_ca,
            "ca.crt");
  ::setenv("C10DD_LISTEN", "10.0.0.1:1", 1);
  EXPECT_EQ(refused({}), "c10dd: C10DD_LISTEN: 10.0.0.1" + end);
  EXPECT_EQ(accepted({"--allow-insecure-listen"}).listen_host, "10.0.0.1");
  EXPECT_EQ(accepted({"--tls", "ca/daemon"}).tls, "ca/daemon");
  EXPECT_EQ(accepted({"--tls", "d", "--grants", "g.toml"}).grants, "g.toml");
  EXPECT_EQ(refused({"--grants", "g.toml", "--listen", "127.0.0.1:1"}),
            "c10dd: --grants needs --tls: without it this daemon asks nobody who he is\n");
  const Options with_metrics = accepted({"--tls", "d", "--listen-metrics", "[::]:9464"});
  EXPECT_EQ(with_metrics.metrics_host, "::");
  EXPECT_EQ(with_metrics.metrics_port, 9464);
  EXPECT_EQ(refused({"--tls", "d", "--listen-metrics", "head"}),
            "c10dd: --listen-metrics: \"head\" has no port; use HOST:PORT, for example "
            "127.0.0.1:29500 or [::1]:29500\n");
  ::setenv("C10DD_ALLOW_INSECURE_LISTEN", "true", 1);
  EXPECT_TRUE(accepted({}).allow_insecure_listen);
}

TEST_F(OptionsTest, WrongValuesNameTheirSourceAndWhatIsAllowed) {
  EXPECT_EQ(refused({"--engine", "rocks:/x"}),
            "c10dd: --engine: invalid engine \"rocks:/x\"; use memory:, rocksdb:/path or "
            "redis://host:port\n");
  for (const std::string bad : {"memory:x", "rocksdb:", "redis://", "redis:x", ""}) {
    EXPECT_NE(refused({"--engine", bad}).find("c10dd: --engine: "), std::string::npos) << bad;
  }
  EXPECT_EQ(refused({"--durability", "some"}),
            "c10dd: --durability: unknown durability \"some\"; use fsync (survives power loss), os "
            "(survives a crash of the daemon) or none (survives SIGTERM only)\n");
  EXPECT_EQ(refused({"--log-level", "loud"}),
            "c10dd: --log-level: unknown log level \"loud\"; use one of trace, debug, info, warn, "
            "error\n");
  for (const std::string bad : {"nan", "inf", "-1", "3600.1", "5s", "1e", " 1"}) {
    EXPECT_EQ(refused({"--drain-timeout=" + bad}),
              "c10dd: --drain-timeout: \"" + bad +
                  "\" is not a number of seconds from 0 to 3600, for example 30 or 2.5\n");
  }
  EXPECT_EQ(refused({"--allow-insecure-listen=maybe"}),
            "c10dd: --allow-insecure-listen: \"maybe\" is neither true nor false\n");
  EXPECT_EQ(refused({"--listen", "\xff:1"}), "c10dd: --listen: \"?:1\" is not UTF-8\n");
  ::setenv("C10DD_DRAIN_TIMEOUT", "x", 1);
  EXPECT_EQ(refused({"--drain-timeout", "1"}),
            "c10dd: C10DD_DRAIN_TIMEOUT: \"x\" is not a number of seconds from 0 to 3600, for "
            "example 30 or 2.5\n")
      << "also where a flag would have replaced it";
}

TEST_F(OptionsTest, CountsSecondsAndSizes) {
  const Options options = accepted(
      {"--shards", "4", "--max-keys-per-job", "10", "--max-bytes-per-job", "64MiB", "--max-bytes",
       "1TiB", "--run-grace", "0.5", "--disk-reserve", "auto", "--disk-ballast=0"});
  EXPECT_EQ(options.shards, 4u);
  EXPECT_EQ(options.quotas.keys, 10u);
  EXPECT_EQ(options.quotas.bytes, std::size_t{64} << 20);
  EXPECT_EQ(options.max_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(options.run_grace, milliseconds(500));
  EXPECT_FALSE(options.disk_reserve);
  EXPECT_EQ(options.disk_ballast, 0u);
  EXPECT_EQ(accepted({"--disk-reserve", "1000"}).disk_reserve, 1000u);
  for (const std::string bad : {"-1", "65", "1.5", "two"}) {
    EXPECT_EQ(refused({"--shards=" + bad}),
              "c10dd: --shards: \"" + bad + "\" is not an integer from 0 to 64\n");
  }
  for (const std::string bad : {"1MB", "-1", "1.5GiB", "GiB", "8192TiB", "9007199254740992"}) {
    EXPECT_EQ(refused({"--max-bytes=" + bad}),
              "c10dd: --max-bytes: \"" + bad +
                  "\" is not a size below 8192TiB; use for example 1048576, 512KiB, 64MiB or 4GiB, "
                  "or auto\n");
  }
  EXPECT_EQ(refused({"--disk-minimum", "5%"}),
            "c10dd: --disk-minimum: \"5%\" is not a size below 8192TiB; use for example 1048576, "
            "512KiB, 64MiB or 4GiB\n");
  EXPECT_EQ(refused({"--session-expiry", "0.5"}),
            "c10dd: --session-expiry: \"0.5\" is not a number of seconds from 1 to 86400, for "
            "example 30 or 2.5\n");
}

TEST_F(OptionsTest, ProtocolsAreAList) {
  const auto spoken = [&](const char* list) { return accepted({"--protocols", list}).protocols; };
  EXPECT_EQ(accepted({}).protocols, ProtocolSet::all());
  EXPECT_EQ(spoken("native"), ProtocolSet({Protocol::native}));
  EXPECT_EQ(spoken("http"), ProtocolSet({Protocol::http}));
  EXPECT_EQ(spoken("http,tcpstore,native"), ProtocolSet::all());
  EXPECT_NE(
      run({"--help"}).out.find("wire protocols to serve: native, http, tcpstore or several\n"),
      std::string::npos);
  EXPECT_EQ(protocols_text(accepted({"--protocols", "http,native"})), "native,http");
  for (const char* list : {"native,", ",http", "native,native", "native, http", "Native"}) {
    EXPECT_NE(refused({"--protocols", list}).find("invalid list of protocols"), std::string::npos);
  }
  EXPECT_EQ(refused({"--protocols", "gopher"}),
            "c10dd: --protocols: invalid list of protocols \"gopher\"; use one or more of native, "
            "http, tcpstore without repeats, for example native,http,tcpstore\n");
}

TEST_F(OptionsTest, EndpointsHaveARangeOfPorts) {
  EXPECT_FALSE(accepted({}).endpoint_ports);
  EXPECT_FALSE(accepted({"--endpoint-ports", ""}).endpoint_ports);
  const Options one = accepted({"--endpoint-ports", "65535-65535"});
  EXPECT_EQ(endpoint_ports_text(one), "65535-65535");
  const Options some = accepted({"--endpoint-ports", "29600-29699"});
  EXPECT_EQ(some.endpoint_ports->low, 29600);
  EXPECT_EQ(some.endpoint_ports->high, 29699);
  for (const char* bad : {"1", "-", "1-", "-1", "2-1", "0-1", "1-65536", "1-2-3", "a-b", " 1-2"}) {
    EXPECT_EQ(refused({(std::string("--endpoint-ports=") + bad).c_str()}),
              std::string("c10dd: --endpoint-ports: \"") + bad +
                  "\" is not a range of ports; use LOW-HIGH with 1 to 65535 and LOW not above "
                  "HIGH, for example 29600-29699\n");
  }
}

TEST_F(OptionsTest, TcpStoreHasAJobPeersAndOldClients) {
  const Options options = accepted({});
  EXPECT_EQ(options.tcpstore_job, "torch");
  EXPECT_EQ(options.tcpstore_from, "");
  EXPECT_EQ(options.tcpstore_legacy, tcpstore::LegacyClients::detect);
  const Options other = accepted(
      {"--tcpstore-job", "digits", "--tcpstore-from", "10.0.0.0/8", "--tcpstore-legacy", "2.0"});
  const ListenerSettings settings = main_listener(other);
  EXPECT_EQ(settings.tcpstore_job, "digits");
  EXPECT_TRUE(settings.tcpstore_from.has(boost::asio::ip::make_address("10.1.2.3")));
  EXPECT_EQ(settings.legacy, tcpstore::LegacyClients::l0);
  EXPECT_EQ(refused({"--tcpstore-job", ""}),
            "c10dd: --tcpstore-job: the job name is empty; use 1 to 255 bytes of UTF-8\n");
  EXPECT_EQ(refused({"--tcpstore-from", "10.0.0.0/33"}),
            "c10dd: --tcpstore-from: invalid address range \"10.0.0.0/33\": the prefix must be "
            "0 to 32 bits; use ADDRESS/BITS, for example 10.0.0.0/8 or fd00::/8\n");
  EXPECT_EQ(refused({"--tcpstore-legacy", "1.13"}),
            "c10dd: --tcpstore-legacy: unknown TCPStore version \"1.13\"; use auto, 2.0 "
            "(PyTorch 1.9 to 2.0) or 2.1\n");
}

TEST_F(OptionsTest, RangesOfAddressesAreNetworks) {
  const auto ranges = AddressRanges::parse("10.0.0.0/8,192.0.2.7,fd00::/8,0.0.0.0/32");
  ASSERT_TRUE(ranges);
  const auto has = [&](const char* address) {
    return ranges->has(boost::asio::ip::make_address(address));
  };
  for (const char* in :
       {"10.0.0.0", "10.255.255.255", "::ffff:10.1.1.1", "192.0.2.7", "fd00::", "fdff:1::1"}) {
    EXPECT_TRUE(has(in)) << in;
  }
  for (const char* out :
       {"9.255.255.255", "11.0.0.0", "192.0.2.6", "fc00::1", "::1", "127.0.0.1"}) {
    EXPECT_FALSE(has(out)) << out;
  }
  EXPECT_TRUE(AddressRanges::parse("0.0.0.0/0")->has(boost::asio::ip::make_address("8.8.8.8")));
  EXPECT_TRUE(AddressRanges::parse("")) << "nobody";
  for (const char* bad : {",", "10.0.0.0/8,", ",10.0.0.0/8", "10.0.0.1/8", "10.0.0/8", "host/8",
                          "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "fd00::/129", "10.0.0.0/8 "}) {
    const auto refused_ranges = AddressRanges::parse(bad);
    ASSERT_FALSE(refused_ranges) << bad;
    EXPECT_EQ(refused_ranges.error().code, Code::invalid_argument);
  }
}

TEST_F(OptionsTest, OptionsOfASharedEngineNeedOne) {
  const std::string end =
      " needs a shared engine (redis:// or redis+sentinel://), but the engine is memory:; remove "
      "this option, or choose such an engine\n";
  const std::vector<std::pair<std::string, std::string>> given = {
      {"--lease", "3"}, {"--mark", "/tmp/mark"}, {"--advertise", "head:1"}};
  for (const auto& [flag, value] : given) {
    EXPECT_EQ(refused({"--engine", "memory:", flag, value}), "c10dd: " + flag + end);
    accepted({"--engine", "redis://h:1", flag, value});
  }
  accepted({"--engine", "memory:", "--lease", "2"});
}

TEST_F(OptionsTest, UnknownFlagsAndArgumentsAreErrors) {
  EXPECT_EQ(refused({"--lisen=1"}).substr(0, 69),
            "c10dd: unknown option \"--lisen\"; did you mean \"--listen\"? use one of ");
  EXPECT_EQ(refused({"--frobnicate"}).substr(0, 49),
            "c10dd: unknown option \"--frobnicate\"; use one of ");
  EXPECT_EQ(refused({"serve"}),
            "c10dd: unexpected argument \"serve\"; c10dd takes only options, see --help\n");
  EXPECT_EQ(refused({"--listen"}), "c10dd: --listen: no value given; use --listen HOST:PORT\n");
  EXPECT_EQ(refused({"--config", "a", "--config", "b"}),
            "c10dd: --config: given more than once; give it once\n");
}

TEST_F(OptionsTest, WrongFilesNameTheirLine) {
  EXPECT_EQ(refused_file("\n\nlisen = \"x\"\nalpha = 1\n"),
            std::string("c10dd: config DIR/c10dd.toml:3: unknown key \"lisen\"; did you mean "
                        "\"listen\"? ") +
                kKnownKeys);
  EXPECT_EQ(refused_file("[server]\nlisten = \"127.0.0.1:1\"\n"),
            std::string("c10dd: config DIR/c10dd.toml:1: unknown key \"server\"; ") + kKnownKeys);
  EXPECT_EQ(refused_file("log_level = \"info\"\n\nlisten = 1\n"),
            "c10dd: config DIR/c10dd.toml:3: listen: wrong type integer; use for example listen = "
            "\"127.0.0.1:29500\"\n");
  EXPECT_EQ(refused_file("drain_timeout = \"5\"\n"),
            "c10dd: config DIR/c10dd.toml:1: drain_timeout: wrong type string; use for example "
            "drain_timeout = 5\n");
  EXPECT_EQ(refused_file("allow_insecure_listen = [true]\n"),
            "c10dd: config DIR/c10dd.toml:1: allow_insecure_listen: wrong type array; use for "
            "example allow_insecure_listen = false\n");
  EXPECT_EQ(refused_file("\nlog_level = \"loud\"\n"),
            "c10dd: config DIR/c10dd.toml:2: log_level: unknown log level \"loud\"; use one of "
            "trace, debug, info, warn, error\n");
  EXPECT_EQ(refused_file("\n\nlisten = \n").substr(0, 58),
            "c10dd: config DIR/c10dd.toml:3: this is not valid TOML: Er");
  EXPECT_EQ(refused_file("config = \"other.toml\"\n").substr(0, 46),
            "c10dd: config DIR/c10dd.toml:1: unknown key \"c");
}

TEST_F(OptionsTest, UnreadableFilesAreErrors) {
  EXPECT_EQ(refused({"--config", "/nonexistent.toml"}),
            "c10dd: config /nonexistent.toml: cannot read this file: No such file or directory\n");
  EXPECT_EQ(refused({"--config", "/"}), "c10dd: config /: cannot read this file: Is a directory\n");
  EXPECT_EQ(refused({"--config", "/dev/zero"}),
            "c10dd: config /dev/zero: this file is longer than the limit of 1048576 bytes\n");
}

TEST_F(OptionsTest, PrintedConfigurationLoadsAsItself) {
  const Ran first = run({"--print-config", "--listen", "0.0.0.0:7", "--allow-insecure-listen",
                         "--engine", "rocksdb:/a \"quoted\\path\"\n\x01/\xC3\xA9",
                         "--drain-timeout", "0.25", "--durability", "os", "--protocols", "native",
                         "--max-bytes", "3GiB", "--shards", "2", "--disk-minimum", "1234567"});
  EXPECT_TRUE(first.parsed.exit);
  EXPECT_EQ(first.parsed.exit_code, 0);
  const std::string config = file(first.out);
  EXPECT_EQ(run({"--config", config, "--print-config"}).out, first.out);
  const Options options = accepted({"--config", config});
  EXPECT_EQ(options.listen_port, 7);
  EXPECT_TRUE(options.allow_insecure_listen);
  EXPECT_EQ(options.engine, "rocksdb:/a \"quoted\\path\"\n\x01/\xC3\xA9");
  EXPECT_EQ(options.drain_timeout, milliseconds(250));
  EXPECT_EQ(options.durability, store::Durability::os);
}

TEST_F(OptionsTest, PasswordOfAnEngineIsInNoError) {
  const std::string url = "redis://ada:hunter2@127.0.0.1:6379";
  EXPECT_EQ(accepted({"--engine", url}).engine, url);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--engine", "redissl://:hunter2@h"},
        {"--engine", "redis:/ada:hunter2@h"},
        {"--engine", "redis://:hunter2@\xff"},
        {"redis://:hunter2@h"},
        {"--config", file("engine = \"redis:/:hunter2@h\"\n")}}) {
    const std::string error = refused(wrong);
    EXPECT_EQ(error.find("hunter2"), std::string::npos) << error;
    EXPECT_NE(error.find("***@"), std::string::npos) << error;
  }
}

TEST_F(OptionsTest, EveryDurabilityHasItsWord) {
  EXPECT_EQ(accepted({"--durability", "fsync"}).durability, store::Durability::fsync);
  EXPECT_EQ(accepted({"--durability", "os"}).durability, store::Durability::os);
  EXPECT_EQ(accepted({"--durability", "none"}).durability, store::Durability::none);
}

TEST_F(OptionsTest, RollbackIsAcceptedByAFlagAndForOneStart) {
  EXPECT_FALSE(accepted({}).accept_rollback);
  EXPECT_TRUE(accepted({"--accept-rollback"}).accept_rollback);
  ::setenv("C10DD_ACCEPT_ROLLBACK", "true", 1);
  EXPECT_FALSE(accepted({}).accept_rollback);
  ::unsetenv("C10DD_ACCEPT_ROLLBACK");
  EXPECT_NE(refused({"--config", file("accept_rollback = true\n")}).find("unknown key"),
            std::string::npos);
}

TEST_F(OptionsTest, HelpShowsVariableAndDefaultOfEachOption) {
  const Ran help = run({"--help"});
  EXPECT_TRUE(help.parsed.exit);
  EXPECT_EQ(help.parsed.exit_code, 0);
  for (const char* line :
       {"--listen HOST:PORT", "C10DD_LISTEN, default 127.0.0.1:29500", "--allow-insecure-listen",
        "C10DD_ALLOW_INSECURE_LISTEN, default false", "C10DD_ENGINE, default rocksdb:/srv/state",
        "C10DD_DURABILITY, default fsync", "C10DD_LOG_LEVEL, default info",
        "C10DD_DRAIN_TIMEOUT, default 5", "--config FILE", "C10DD_CONFIG", "--print-config",
        "DANGER: allow an address that other machines can reach without --tls:"}) {
    EXPECT_NE(help.out.find(line), std::string::npos) << line << " in\n" << help.out;
  }
  EXPECT_EQ(run({"--version"}).out, std::string("c10dd ") + C10DD_VERSION + "\n");
}

}  // namespace
}  // namespace c10dd::daemon
