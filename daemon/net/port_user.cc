// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/port_user.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListens = "0A";   // states of /proc/net/tcp
constexpr std::string_view kTimeWait = "06";  // a connection that is over

/// The port of "0100007F:733C".
std::optional<std::uint16_t> port_of(std::string_view end) {
  const std::size_t colon = end.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return parse_number<std::uint16_t>(end.substr(colon + 1), 16);
}

/// Returns an end of a connection as text; empty if it is damaged. Each word of 32 bits is in the
/// order of this machine.
std::string text_of(std::string_view end) {
  const std::size_t digits = end.find(':');
  std::array<std::uint32_t, 4> words{};
  if (digits != 8 && digits != 32) return {};
  for (std::size_t i = 0; i < digits / 8; ++i) {
    const auto word = parse_number<std::uint32_t>(end.substr(8 * i, 8), 16);
    if (!word) return {};
    words[i] = *word;
  }
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(digits == 8 ? AF_INET : AF_INET6, words.data(), text, sizeof text);
  return address_text(text, port_of(end).value_or(0));
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns "python3 (pid 7)"; empty if no process that this user may see has the socket.
std::string owner_of(std::uint64_t inode) {
  const std::string socket = format("socket:[{}]", inode);
  std::error_code failed;
  for (fs::directory_iterator process("/proc", failed), end; !failed && process != end;
       process.increment(failed)) {
    const std::string pid = process->path().filename();
    if (!parse_number<std::uint32_t>(pid)) continue;
    std::error_code hidden;  // of another user, or gone
    for (fs::directory_iterator file(process->path() / "fd", hidden); !hidden && file != end;
         file.increment(hidden)) {
      std::error_code closed;
      if (fs::read_symlink(file->path(), closed) != socket) continue;
      std::string name = read(process->path() / "comm");
      name.resize(std::min(name.find('\n'), name.size()));
      return format("{} (pid {})", printable(name, limits::kNameShown), pid);
    }
  }
  return {};
}

}  // namespace

std::optional<PortSocket> port_socket_in(std::string_view table, std::uint16_t port) {
  std::optional<PortSocket> found;
  std::istringstream lines{std::string(table)};
  std::string line, number, own, peer, state, skipped;
  std::getline(lines, line);  // the names of the columns
  while (std::getline(lines, line)) {
    std::istringstream columns(line);
    PortSocket one;
    columns >> number >> own >> peer >> state;
    for (int i = 0; i < 5; ++i) columns >> skipped;  // queues, timers, user
    if (!(columns >> one.inode) || port_of(own) != port || state == kTimeWait) continue;
    one.listens = state == kListens;
    if (!one.listens) one.peer = text_of(peer);
    if (!found || one.listens) found = one;
    if (found->listens) break;
  }
  return found;
}

std::string port_trouble(std::uint16_t port) {
  std::optional<PortSocket> found;
  for (const char* const path : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    if (found && found->listens) break;
    auto other = port_socket_in(read(path), port);
    if (other && (!found || other->listens)) found = std::move(other);
  }
  if (!found) return "another process uses it; choose another port with --listen";
  const std::string owner = owner_of(found->inode);
  if (found->listens) {
    return format("{} listens there; stop it or choose another port with --listen",
                  owner.empty() ? "another server" : owner);
  }
  return format(
      "it is the local end of a connection{} to {}; end it, or choose a port with --listen that "
      "the "
      "kernel gives to no connection, outside of /proc/sys/net/ipv4/ip_local_port_range",
      owner.empty() ? "" : " of " + owner, found->peer);
}

}  // namespace c10dd::daemon
