// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace c10dd::bench {
namespace {

constexpr const char* kNear = "near0";
constexpr const char* kFar = "far0";

[[noreturn]] void skip(const std::string& what) {
  throw Skipped(what + ": " + std::strerror(errno));
}

Descriptor current() {
  Descriptor network(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (network.get() < 0) skip("/proc/self/ns/net");
  return network;
}

void enter(const Descriptor& network) {
  if (::setns(network.get(), CLONE_NEWNET) != 0) fail_with_errno("setns");
}

Descriptor create() {
  if (::unshare(CLONE_NEWNET) != 0) skip("a network namespace of its own");
  return current();
}

/// In the namespace that this process is in.
void set_interface(const char* name, bool up) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) fail_with_errno(name);
  const int flags = request.ifr_flags & ~IFF_UP;
  request.ifr_flags = static_cast<short>(flags | (up ? IFF_UP : 0));
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) fail_with_errno(name);
}

void ip(std::vector<std::string> words) {
  words.insert(words.begin(), "ip");
  const pid_t pid = ::fork();
  if (pid < 0) fail_with_errno("fork");
  if (pid == 0) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp("ip", arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status == 0) return;
  throw Skipped("ip " + words[1] + " " + words[2] + " ended with status " +
                std::to_string(WEXITSTATUS(status)));
}

}  // namespace

TwoNetworks::TwoNetworks() : home_(current()) {
  far_ = create();
  near_ = create();
  set_interface("lo", true);
  const std::string far = "/proc/" + std::to_string(::getpid()) + "/fd/";
  try {
    ip({"link", "add", kNear, "type", "veth", "peer", "name", kFar});
    ip({"link", "set", kFar, "netns", far + std::to_string(far_.get())});
    ip({"address", "add", std::string(kNearAddress) + "/30", "dev", kNear});
    set_interface(kNear, true);
    enter(far_);
    ip({"address", "add", "10.231.0.2/30", "dev", kFar});
    set_interface("lo", true);
    set_interface(kFar, true);
    enter(near_);
  } catch (...) {
    enter(home_);
    throw;
  }
}

TwoNetworks::~TwoNetworks() { ::setns(home_.get(), CLONE_NEWNET); }

void TwoNetworks::enter_far() const { enter(far_); }

void TwoNetworks::set_link(bool up) {
  enter(far_);
  set_interface(kFar, up);
  enter(near_);
}

}  // namespace c10dd::bench
