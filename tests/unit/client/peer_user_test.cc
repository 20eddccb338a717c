// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection over loopback, as the kernel tells it over netlink and by
// /proc, with real sockets of real users.
#include "client/proxy/peer_user.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "tests/unit/client/process_tools.h"

namespace c10dd::proxy {
namespace {

using client::Descriptor;

constexpr uid_t kStranger = 65'533;

class PeerUserTest : public testing::TestWithParam<PeerUsers::By> {
 protected:
  void SetUp() override { ASSERT_TRUE(listen()); }

  bool listen() {
    listening_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    at_ = {};
    at_.sin_family = AF_INET;
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at_;
    auto* const address = reinterpret_cast<sockaddr*>(&at_);
    if (bind(listening_.get(), address, size) != 0 || ::listen(listening_.get(), 16) != 0 ||
        getsockname(listening_.get(), address, &size) != 0) {
      return false;
    }
    auto users = PeerUsers::open(listening_.get(), GetParam());
    if (users) users_ = std::move(*users);
    return users.has_value();
  }
  Descriptor connected() const {
    Descriptor one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(one.get(), reinterpret_cast<const sockaddr*>(&at_), sizeof at_), 0);
    return one;
  }
  /// Connects with a socket of IPv6.
  Descriptor connected_mapped() const {
    Descriptor one(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 mapped{};
    mapped.sin6_family = AF_INET6;
    mapped.sin6_port = at_.sin_port;
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &mapped.sin6_addr);
    EXPECT_EQ(connect(one.get(), reinterpret_cast<const sockaddr*>(&mapped), sizeof mapped), 0);
    return one;
  }
  Descriptor accepted() const {
    return Descriptor(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  PeerUser look() { return users_.look(accepted().get()); }

  Descriptor listening_;
  sockaddr_in at_{};
  PeerUsers users_;
};

TEST_P(PeerUserTest, OurOwnConnectionsAreOurs) {
  EXPECT_EQ(users_.uses_netlink(), GetParam() == PeerUsers::By::any);
  const Descriptor first = connected();
  const Descriptor second = connected();
  const Descriptor mapped = connected_mapped();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(look(), PeerUser::own) << i;
}

TEST_P(PeerUserTest, AConnectionThatWasClosedIsOfNobody) {
  {
    const Descriptor closed = connected();
    const std::string text = "DELETE everything";
    EXPECT_EQ(write(closed.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  EXPECT_EQ(look(), PeerUser::gone);
  {
    const Descriptor reset = connected();
    const linger at_once{1, 0};
    setsockopt(reset.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  EXPECT_EQ(look(), PeerUser::gone);
  const Descriptor half = connected();
  shutdown(half.get(), SHUT_WR);
  EXPECT_EQ(look(), PeerUser::own) << "the process still has it";
}

TEST_P(PeerUserTest, AConnectionOfAnotherUserIsToldApart) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const test::Pipe told;
  for (const uid_t stranger : {kStranger, kStranger - 1}) {
    const pid_t child = fork();
    if (child == 0) {
      if (setresuid(stranger, stranger, stranger) != 0) _exit(1);
      const Descriptor one = connected();
      const Descriptor mapped = connected_mapped();
      told.write("!");
      for (;;) pause();
    }
    told.read(1);
    const Descriptor own = connected();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(look(), PeerUser::other) << i;
      EXPECT_EQ(users_.user(), stranger);
    }
    EXPECT_EQ(look(), PeerUser::own);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  // What a stranger has closed is root's for the kernel.
  EXPECT_TRUE(test::holds_in_child([&] {
    if (setresuid(kStranger, kStranger, kStranger) != 0) return false;
    const Descriptor one = connected();
    return write(one.get(), "x", 1) == 1;
  }));
  EXPECT_EQ(look(), PeerUser::gone);
}

/// In a user namespace without a map all users have the same number.
TEST_P(PeerUserTest, ANumberThatStandsForManyUsersCountsOnlyInANetworkOfTheSameNamespace) {
  const auto looked_in = [&](int namespaces) {
    const int status = test::status_of_child([&] {
      if (unshare(namespaces) != 0) return 100;
      ifreq loopback{};
      loopback.ifr_name[0] = 'l';
      loopback.ifr_name[1] = 'o';
      loopback.ifr_flags = IFF_UP;
      const Descriptor any(::socket(AF_INET, SOCK_DGRAM, 0));
      if ((namespaces & CLONE_NEWNET) != 0) ioctl(any.get(), SIOCSIFFLAGS, &loopback);
      if (!listen()) return 101;
      const Descriptor one = connected();
      return static_cast<int>(look());
    });
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const int shared = looked_in(CLONE_NEWUSER);
  if (shared == 100) GTEST_SKIP() << "this user may make no user namespace";
  EXPECT_EQ(shared, static_cast<int>(PeerUser::unclear));
  EXPECT_EQ(looked_in(CLONE_NEWUSER | CLONE_NEWNET), static_cast<int>(PeerUser::own));
}

TEST(PeerUsers, WithoutDescriptorsItSaysWhatItCannotAsk) {
  const Descriptor any(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  ASSERT_EQ(bind(any.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  const test::FewDescriptors none(0);
  const auto users = PeerUsers::open(any.get());
  ASSERT_FALSE(users);
  EXPECT_EQ(users.error().detail, "netlink: too many open files; /proc/net/tcp cannot be read");
}

INSTANTIATE_TEST_SUITE_P(By, PeerUserTest, testing::Values(PeerUsers::By::any, PeerUsers::By::proc),
                         [](const auto& by) {
                           return by.param == PeerUsers::By::any ? "Netlink" : "Proc";
                         });

}  // namespace
}  // namespace c10dd::proxy
