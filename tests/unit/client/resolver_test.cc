// SPDX-License-Identifier: Apache-2.0
// Lookups of names, and connections to names, over name servers that are silent, late, refuse, or
// change their mind.
#include "client/internal/resolver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>

#include "client/internal/local_address.h"
#include "client/internal/socket.h"
#include "tests/unit/client/listening_socket.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/client/thrown_error.h"
#include "tests/unit/comes_true.h"

namespace c10dd::client {
namespace {

/// What the name servers of this program know of a name that ends with .fake.
struct FakeName {
  std::vector<std::string> addresses = {};
  int error = 0;                 ///< instead of the addresses
  int only_with_addrconfig = 0;  ///< this error if AI_ADDRCONFIG is given, else as above
  bool silent = false;           ///< until it is changed
  int asked = 0;
};

class FakeNames {
 public:
  void set(const std::string& name, FakeName how) {
    const std::lock_guard lock(mutex_);
    how.asked = names_[name].asked;
    names_[name] = std::move(how);
    changed_.notify_all();
  }
  int asked(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return names_[name].asked;
  }
  FakeName ask(const std::string& name) {
    std::unique_lock lock(mutex_);
    ++names_[name].asked;
    changed_.wait(lock, [&] { return !names_[name].silent; });
    return names_[name];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, FakeName> names_;
};

FakeNames*& all_names() {
  static FakeNames* all = new FakeNames;  // threads may outlive main()
  return all;
}
FakeNames& names() { return *all_names(); }
/// In a forked child: threads of the parent may hold the mutex, or wait for the condition.
void begin_anew() { all_names() = new FakeNames; }

using GetAddresses = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

GetAddresses system_look_up() {
  return reinterpret_cast<GetAddresses>(dlsym(RTLD_NEXT, "getaddrinfo"));
}

int fake_look_up(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  const FakeName name = names().ask(node);
  const int error = (hints->ai_flags & AI_ADDRCONFIG) != 0 && name.only_with_addrconfig != 0
                        ? name.only_with_addrconfig
                        : name.error;
  errno = error == EAI_SYSTEM ? EMFILE : 0;
  if (error != 0) return error;
  addrinfo numeric = *hints;
  numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  for (addrinfo** end = found; const std::string& address : name.addresses) {
    if (system_look_up()(address.c_str(), service, &numeric, end) != 0) return EAI_FAIL;
    while (*end != nullptr) end = &(*end)->ai_next;
  }
  return 0;
}

}  // namespace
}  // namespace c10dd::client

/// Takes the place of the system's function in this program.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  const bool is_fake = node != nullptr && std::string_view(node).ends_with(".fake") &&
                       (hints->ai_flags & AI_NUMERICHOST) == 0;
  return is_fake ? c10dd::client::fake_look_up(node, service, hints, found)
                 : c10dd::client::system_look_up()(node, service, hints, found);
}

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::ListeningSocket;

constexpr Duration kNameLimit = 60s;

/// Returns the addresses that are found, or the text of the failure.
std::string found(const std::string& name, Duration patience = kNameLimit, int interrupt = -1) {
  const auto result = resolve({name, "7"}, interrupt, patience);
  if (!result) return result.error().detail;
  std::string all;
  for (const SocketAddress& one : *result) all += one.host() + " ";
  return all;
}

TEST(ResolverTest, ALateAnswerServesTheNextCall) {
  names().set("late.fake", {.addresses = {"127.0.0.5"}, .silent = true});
  for (int i = 0; i < 2; ++i) {
    const auto late = resolve({"late.fake", "7"}, -1, 1ms);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::unavailable);
    EXPECT_EQ(late.error().detail,
              "host name late.fake was not resolved within 0.001 s; check the name servers");
  }
  EXPECT_TRUE(test::comes_true([] { return names().asked("late.fake") == 1; }));
  auto third = std::async(std::launch::async, [] { return found("late.fake"); });
  names().set("late.fake", {.addresses = {"127.0.0.5"}});
  EXPECT_EQ(third.get(), "127.0.0.5 ");
  EXPECT_EQ(found("late.fake"), "127.0.0.5 ");
}

TEST(ResolverTest, OneLookUpServesAllWhoWaitForIt) {
  names().set("many.fake", {.addresses = {"127.0.0.5", "127.0.0.6"}, .silent = true});
  std::vector<std::future<std::string>> callers;
  EXPECT_NE(found("many.fake", 1ms), "");
  for (int i = 0; i < 4; ++i) {
    callers.push_back(std::async(std::launch::async, [] { return found("many.fake", 50ms); }));
  }
  for (auto& caller : callers) EXPECT_TRUE(test::has(caller.get(), "not resolved within 0.05 s"));
  EXPECT_EQ(names().asked("many.fake"), 1);
  names().set("many.fake", {.addresses = {"127.0.0.5", "127.0.0.6"}});
  EXPECT_TRUE(test::comes_true([] { return found("many.fake") == "127.0.0.5 127.0.0.6 "; }));
}

TEST(ResolverTest, IsInterruptedButGoesOn) {
  const Descriptor interrupt(eventfd(1, EFD_CLOEXEC));
  names().set("stuck.fake", {.addresses = {"127.0.0.5"}, .silent = true});
  EXPECT_EQ(found("stuck.fake", kNameLimit, interrupt.get()),
            "the look-up of host name stuck.fake was interrupted");
  names().set("stuck.fake", {.addresses = {"127.0.0.5"}});
  EXPECT_EQ(found("stuck.fake"), "127.0.0.5 ");
  names().set("stuck.fake", {.silent = true});
  EXPECT_EQ(found("stuck.fake", kNameLimit, interrupt.get()), "127.0.0.5 ") << "what it knows";
  names().set("stuck.fake", {});
}

TEST(ResolverTest, TheNewestAddressesServeWhileTheNameServersDoNot) {
  names().set("kept.fake", {.addresses = {"127.0.0.5"}});
  EXPECT_EQ(found("kept.fake"), "127.0.0.5 ");
  names().set("kept.fake", {.silent = true});
  EXPECT_EQ(found("kept.fake", 1ms), "127.0.0.5 ");
  names().set("kept.fake", {.error = EAI_NONAME});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(found("kept.fake"), "127.0.0.5 ");
  names().set("kept.fake", {.addresses = {"127.0.0.6"}});
  EXPECT_EQ(found("kept.fake"), "127.0.0.6 ");
  names().set("kept.fake", {.error = EAI_AGAIN});
  EXPECT_EQ(found("kept.fake"), "127.0.0.6 ");
}

TEST(ResolverTest, KeepsTheAddressesOfEachPort) {
  names().set("ports.fake", {.addresses = {"127.0.0.5"}});
  const auto port_of = [](const char* port) {
    const auto result = resolve({"ports.fake", port}, -1, kNameLimit);
    if (!result) return 0;
    return int{ntohs(reinterpret_cast<const sockaddr_in*>(result->at(0).get())->sin_port)};
  };
  EXPECT_EQ(port_of("1"), 1);
  EXPECT_EQ(port_of("2"), 2);
  names().set("ports.fake", {.error = EAI_FAIL});
  EXPECT_EQ(port_of("1"), 1);
  EXPECT_EQ(port_of("2"), 2);
  EXPECT_EQ(port_of("3"), 0);
}

TEST(ResolverTest, FindsNamesWithoutANetworkAndSaysWhyNot) {
  names().set("hosts.fake", {.addresses = {"127.0.0.5"}, .only_with_addrconfig = EAI_NONAME});
  EXPECT_EQ(found("hosts.fake"), "127.0.0.5 ");
  EXPECT_EQ(names().asked("hosts.fake"), 2);
  names().set("away.fake", {.error = EAI_AGAIN});
  EXPECT_EQ(found("away.fake"),
            std::string("host name away.fake cannot be resolved: ") + gai_strerror(EAI_AGAIN));
  EXPECT_EQ(names().asked("away.fake"), 1) << "servers that do not answer are asked once";
  names().set("system.fake", {.error = EAI_SYSTEM});
  EXPECT_EQ(found("system.fake"), "host name system.fake cannot be resolved: too many open files");
}

TEST(ResolverTest, WithoutDescriptorsItSaysSoOrTellsWhatItKnows) {
  names().set("known.fake", {.addresses = {"127.0.0.5"}});
  EXPECT_EQ(found("known.fake"), "127.0.0.5 ");
  names().set("new.fake", {.addresses = {"127.0.0.6"}});
  const std::ptrdiff_t before = test::open_descriptors();
  {
    const test::FewDescriptors none(0);
    EXPECT_EQ(found("new.fake"), "cannot look up host name new.fake: too many open files");
    EXPECT_EQ(found("known.fake"), "127.0.0.5 ");
  }
  EXPECT_LE(test::open_descriptors(), before);
  EXPECT_EQ(found("new.fake"), "127.0.0.6 ") << "a failure is not kept";
}

TEST(ResolverTest, AForkedChildDoesNotWaitForTheLookUpOfItsParent) {
  names().set("forked.fake", {.addresses = {"127.0.0.5"}, .silent = true});
  EXPECT_NE(found("forked.fake", 1ms), "");
  EXPECT_TRUE(test::comes_true([] { return names().asked("forked.fake") == 1; }));
  EXPECT_TRUE(test::holds_in_child([] {
    begin_anew();
    names().set("forked.fake", {.addresses = {"127.0.0.6"}});
    return found("forked.fake") == "127.0.0.6 ";
  }));
  names().set("forked.fake", {});
}

TEST(ResolverTest, TheLocalAddressIsTowardsTheFirstAddressWithARoute) {
  names().set("route.fake", {.addresses = {"255.255.255.255", "127.0.0.9"}});
  EXPECT_EQ(local_address_towards("route.fake", "7"), "127.0.0.1");
  names().set("nowhere.fake", {.error = EAI_NONAME});
  EXPECT_EQ(local_address_towards("nowhere.fake", "7"), "");
  names().set("broadcast.fake", {.addresses = {"255.255.255.255"}});
  EXPECT_EQ(local_address_towards("broadcast.fake", "7"), "");
}

// ---- connections to names ----------------------------------------------------------------------

TEST(DialNameTest, TriesTheNextAddressAfterOneThatRefusesOrIsSilent) {
  const ListeningSocket server("127.0.0.7");
  const std::string port = std::to_string(server.port());
  names().set("two.fake", {.addresses = {"127.0.0.8", "127.0.0.7"}});
  ASSERT_TRUE(dial("two.fake:" + port, -1, kNameLimit));
  EXPECT_TRUE(server.accept());
  const ListeningSocket silent("127.0.0.8", server.port(), 0);
  const Result<Descriptor> filler = dial(silent.address(), -1, kNameLimit);
  ASSERT_TRUE(filler);
  const Result<Descriptor> second = dial("two.fake:" + port, -1, 50ms);
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_NE(fcntl(second->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_TRUE(server.accept());
}

TEST(DialNameTest, SaysThatNobodyListensOnlyIfEachAddressHasRefused) {
  names().set("two.fake", {.addresses = {"127.0.0.8", "127.0.0.7"}});
  const ListeningSocket silent("127.0.0.8", 0, 0);
  const Result<Descriptor> filler = dial(silent.address(), -1, kNameLimit);
  const std::string address = "two.fake:" + std::to_string(silent.port());
  const auto one_silent = dial(address, -1, 50ms);
  ASSERT_FALSE(one_silent);
  EXPECT_EQ(one_silent.error().code, Code::unavailable);
  EXPECT_EQ(one_silent.error().detail, "connect: connection refused");
  names().set("two.fake", {.addresses = {"127.0.0.9", "127.0.0.7"}});
  EXPECT_EQ(dial(address, -1, kNameLimit).error().code, Code::not_found);
}

TEST(DialNameTest, TriesNoFurtherAddressOnceItIsInterrupted) {
  names().set("interrupted.fake", {.addresses = {"127.0.0.8", "127.0.0.7"}});
  const ListeningSocket server("127.0.0.7");
  const ListeningSocket silent("127.0.0.8", server.port(), 0);
  const Result<Descriptor> filler = dial(silent.address(), -1, kNameLimit);
  const Descriptor interrupt(eventfd(1, EFD_CLOEXEC));
  // Of this port, the name is looked up once without an interrupt.
  const std::string port = std::to_string(server.port());
  ASSERT_TRUE(resolve({"interrupted.fake", port}, -1, kNameLimit));
  const auto failed = dial("interrupted.fake:" + port, interrupt.get(), kNameLimit);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::unavailable);
  EXPECT_EQ(failed.error().detail, "connect: interrupted system call");
  EXPECT_FALSE(server.has_connection());
}

TEST(DialNameTest, WithoutDescriptorsItFailsAndKeepsNone) {
  const ListeningSocket server;
  const std::ptrdiff_t before = test::open_descriptors();
  {
    const test::FewDescriptors none(0);
    const auto failed = dial(server.address(), -1, kNameLimit);
    EXPECT_EQ(failed.error().code, Code::unavailable);
    EXPECT_EQ(failed.error().detail, "connect: too many open files");
  }
  EXPECT_LE(test::open_descriptors(), before);
  EXPECT_FALSE(server.has_connection());
}

}  // namespace
}  // namespace c10dd::client
