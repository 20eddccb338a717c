// SPDX-License-Identifier: Apache-2.0
// How a rank of the backend gloo chooses its address and connects, over bootstraps that the test
// plays: peers that send no address, another family, or an address at which nobody listens.
#include <gloo/transport/pair.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/gloo/device.h"
#include "collectives/gloo/mesh.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::contains;

/// Replies to each exchange of rank 0 what its script says.
class PlayedBootstrap final : public Bootstrap {
 public:
  using Parts = std::vector<std::string>;

  explicit PlayedBootstrap(Rank size, std::string address = "127.0.0.1")
      : size_(size), address_(std::move(address)) {}
  Parts transpose(Parts parts, Duration) override {
    sent.push_back(parts);
    if (replies.empty()) throw Unavailable("the exchange is broken");
    Parts all = std::move(replies.front());
    replies.pop_front();
    all.insert(all.begin(), parts[0]);
    all.resize(size_);
    return all;
  }
  std::string local_address() const override { return address_; }
  std::vector<ProcessAddress> processes() const override {
    return {{"host-a", 1}, {"host-b", 2}, {"host-c", 3}};
  }

  std::vector<Parts> sent;
  std::deque<Parts> replies;  // of ranks 1 and following

 private:
  const Rank size_;
  const std::string address_;
};

std::string bytes_of(const std::vector<int>& bytes) {
  std::string text;
  for (const int one : bytes) text += static_cast<char>(one);
  return text;
}

/// Returns the compact address of a port of 127.0.0.1 at which nobody listens.
std::string deserted() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  const auto port = ntohs(address.sin_port);
  return bytes_of({127, 0, 0, 1, port >> 8, port & 0xff});
}

class GlooMesh : public testing::Test {
 protected:
  /// Opens rank 0, whose peers have these addresses. Returns its failure.
  Failure refused(std::vector<std::string> peers, GroupOptions options = {}) {
    options.open_timeout = 300ms;
    const auto size = static_cast<Rank>(peers.size() + 1);
    bootstrap = std::make_shared<PlayedBootstrap>(size);
    bootstrap->replies = {std::move(peers)};
    const Result<Mesh> mesh = connect_mesh({{.size = size, .name = "pairs"}, options, bootstrap});
    EXPECT_FALSE(mesh);
    return mesh ? failure(Code::ok, "") : mesh.error();
  }
  std::shared_ptr<PlayedBootstrap> bootstrap;
};

const std::string kPlausible = bytes_of({127, 0, 0, 1, 1, 1});

TEST_F(GlooMesh, APeerThatSendsNoAddressIsNamed) {
  for (const std::string& lie :
       {std::string(), std::string("12345"), std::string(7, 'x'), std::string(21, 'x')}) {
    const Failure why = refused({kPlausible, lie});
    EXPECT_EQ(why.code, Code::invalid_argument);
    EXPECT_TRUE(contains(why.detail, "gloo: rank 2 did not send a Gloo address: ")) << why.detail;
  }
  EXPECT_EQ(bootstrap->sent.size(), 1u);
  EXPECT_TRUE(bootstrap->sent[0][0].empty()) << "nothing for itself";
  EXPECT_EQ(bootstrap->sent[0][1].substr(0, 4), bytes_of({127, 0, 0, 1}));
  EXPECT_NE(bootstrap->sent[0][1], bootstrap->sent[0][2]) << "each peer has its own port";
}

TEST_F(GlooMesh, APeerThatHasNoAddressSaysWhy) {
  const Failure why = refused({"!has no address to listen on: drill", kPlausible});
  EXPECT_EQ(why.code, Code::unavailable);
  EXPECT_EQ(why.detail, "gloo: rank 1 has no address to listen on: drill");
  // 33.1.2.3 begins with the same byte. It is no loopback address, as the own one is.
  const Failure mixed = refused({bytes_of({33, 1, 2, 3, 1, 1})}, {.hostname = "127.0.0.1"});
  EXPECT_TRUE(contains(mixed.detail, "gloo: rank 0 has the loopback address 127.0.0.1:"))
      << mixed.detail;
  EXPECT_TRUE(
      contains(mixed.detail, "which rank 1 at 33.1.2.3:257 cannot reach: change its option"))
      << mixed.detail;
  ASSERT_EQ(bootstrap->sent.size(), 2u) << "it tells the others";
  for (const std::string& told : bootstrap->sent[1]) {
    EXPECT_EQ(told.rfind("!has the loopback address", 0), 0u) << told;
  }
}

TEST_F(GlooMesh, AnAddressOfAnotherFamilyIsRefused) {
  std::string loopback6(22, '\0');
  loopback6[15] = 1;
  loopback6[17] = 9;
  const Failure why = refused({loopback6});
  EXPECT_EQ(why.code, Code::unavailable);
  EXPECT_TRUE(contains(why.detail,
                       "gloo: rank 1 has the address ::1:9, but this rank has "
                       "127.0.0.1:"))
      << why.detail;
}

TEST_F(GlooMesh, AllPeersThatCannotBeConnectedAreNamed) {
  const Failure why = refused({deserted(), deserted()});
  EXPECT_EQ(why.code, Code::unavailable);
  EXPECT_TRUE(contains(why.detail, "gloo: no connection to ")) << why.detail;
  EXPECT_TRUE(contains(why.detail, " (world size 3) after ")) << why.detail;
  EXPECT_TRUE(contains(why.detail, "last attempt: 127.0.0.1:")) << why.detail;
  std::vector<std::string> hosts;
  for (const MissingRank& one : why.missing) hosts.push_back(one.host);
  std::ranges::sort(hosts);
  EXPECT_EQ(hosts, (std::vector<std::string>{"host-b", "host-c"}));
}

TEST_F(GlooMesh, ABrokenExchangeIsKeptAsItWas) {
  bootstrap = std::make_shared<PlayedBootstrap>(2);
  const BackendSetup setup{{.size = 2}, {}, bootstrap};
  EXPECT_FALSE(connect_mesh(setup));
  ASSERT_NE(setup.thrown, nullptr);
  EXPECT_THROW(std::rethrow_exception(setup.thrown), Unavailable);
}

TEST_F(GlooMesh, TwoGroupsConnectAtOnce) {
  const std::shared_ptr<test::ThreadExchange> points[2] = {
      std::make_shared<test::ThreadExchange>(3), std::make_shared<test::ThreadExchange>(3)};
  test::run_ranks(6, [&](Rank thread) {
    const Rank rank = thread / 2;
    const auto mesh =
        connect_mesh({{.rank = rank, .size = 3},
                      {},
                      std::make_shared<test::ThreadBootstrap>(points[thread % 2], rank)});
    ASSERT_TRUE(mesh) << mesh.error().detail;
    EXPECT_FALSE(mesh->transport->stopped());
    EXPECT_EQ(mesh->transport->rank, static_cast<int>(rank));
  });
}

TEST_F(GlooMesh, ALinkLocalAddressLosesTheScopeOfItsOwnMachine) {
  std::string link_local(22, '\0');
  link_local[0] = '\xfe';
  link_local[1] = '\x80';
  link_local[15] = 1;
  link_local[17] = 9;
  link_local[18] = 5;  // the number of an interface there
  const Failure why = refused({link_local}, {.hostname = "127.0.0.1"});
  EXPECT_TRUE(contains(why.detail, "which rank 1 at fe80::1:9 cannot reach")) << why.detail;
}

/// Sets variables while it exists.
class Variables {
 public:
  Variables(const char* first, const char* second) {
    setenv("C10DD_GLOO_INTERFACE", first, 1);
    setenv("GLOO_SOCKET_IFNAME", second, 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    unsetenv("C10DD_GLOO_INTERFACE");
    unsetenv("GLOO_SOCKET_IFNAME");
  }
};

using GlooDevice = std::shared_ptr<::gloo::transport::Device>;

std::string opened(const GroupOptions& options, const std::string& local = "127.0.0.9") {
  const Result<GlooDevice> device =
      open_device({{}, options, std::make_shared<PlayedBootstrap>(1, local)});
  return device ? (*device)->str() : device.error().detail;
}

TEST(GlooDevices, AnAddressComesFromTheFirstThatNamesOne) {
  EXPECT_TRUE(contains(opened({}), "127.0.0.9"));
  EXPECT_TRUE(contains(opened({.hostname = "127.0.0.8"}), "127.0.0.8"));
  const Variables variables("nosuch0,lo", "nosuch1");
  EXPECT_TRUE(contains(opened({}), "127.0.0.1")) << opened({});
  EXPECT_TRUE(contains(opened({.hostname = "127.0.0.8"}), "127.0.0.8")) << "an option counts more";
  EXPECT_TRUE(contains(opened({.interface = "lo", .hostname = "127.0.0.8"}), "127.0.0.1"));
  {
    const Variables second("", "lo");
    EXPECT_TRUE(contains(opened({}), "127.0.0.1")) << "an empty variable is none";
  }
  const Variables wrong("nosuch0,nosuch1", "lo");
  EXPECT_TRUE(contains(opened({}),
                       "gloo: C10DD_GLOO_INTERFACE=nosuch0,nosuch1: interface "
                       "\"nosuch0\" has no IP address on this machine"));
  EXPECT_TRUE(contains(opened({.interface = "nosuch7"}), "gloo: interface \"nosuch7\""));
}

TEST(GlooDevices, GroupsShareThemAndTheyEndWithTheirLastGroup) {
  const auto open = [](const char* host) {
    const auto device = open_device({{}, {.hostname = host}, std::make_shared<PlayedBootstrap>(1)});
    EXPECT_TRUE(device);
    return *device;
  };
  const std::size_t most = std::max(std::thread::hardware_concurrency(), 1u);
  std::vector<GlooDevice> all;
  for (std::size_t i = 0; i < 2 * most; ++i) all.push_back(open("127.0.0.5"));
  for (std::size_t i = 0; i < most; ++i) {
    EXPECT_EQ(std::ranges::count(all, all[i]), 2) << "each has as many groups as the others";
  }
  EXPECT_EQ(std::ranges::count(all, open("127.0.0.6")), 0) << "it has another address";
  const GlooDevice lone = all[0];
  std::erase(all, lone);
  EXPECT_EQ(open("127.0.0.5"), lone) << "the one with the fewest groups";
  all = {lone};
  if (most == 1) return;
  EXPECT_NE(open("127.0.0.5"), lone) << "the others have ended, so that there may be a new one";
}

}  // namespace
}  // namespace c10dd::collectives
