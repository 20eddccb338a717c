// SPDX-License-Identifier: Apache-2.0
// Starts redis-server, waits for its own word that it is ready, ends it by pid.
#include "tests/unit/store/redis_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <vector>

#if C10DD_WITH_TLS
#include "protocol/tls/certificates.h"
#endif
#include "store/redis/commands.h"
#include "tests/integration/installed_program.h"

namespace c10dd::store {
namespace {

constexpr std::chrono::seconds kStartDeadline{20};

std::string program() { return test::installed_program("redis-server"); }

/// Reads until the text appears; false at the end of the output or the deadline.
bool wait_for(int output, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + kStartDeadline;
  std::string seen;
  std::array<char, 4096> buffer;
  while (seen.find(text) == std::string::npos) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd ready{output, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
    const ssize_t length = ::read(output, buffer.data(), buffer.size());
    if (length <= 0) return false;
    seen.append(buffer.data(), static_cast<std::size_t>(length));
  }
  return true;
}

#if C10DD_WITH_TLS
/// Writes a CA and the certificate of a server on 127.0.0.1.
void write_files(const std::string& folder) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::chrono::hours day(24);
  const tls::Key ca_key = tls::Key::make();
  const tls::Certificate ca = tls::make_ca({"redis", {}, now - day, now + day}, ca_key);
  const tls::Key key = tls::Key::make();
  const auto own =
      tls::make_server({"redis", {"127.0.0.1"}, now - day, now + day}, key, ca, ca_key);
  std::ofstream(folder + "/ca.crt") << ca.pem();
  std::ofstream(folder + "/tls.crt") << own->pem();
  std::ofstream(folder + "/tls.key") << key.private_pem();
}
#endif

}  // namespace

bool RedisServer::installed() { return !program().empty(); }

RedisServer::RedisServer(bool tls) : tls_(tls) {
#if C10DD_WITH_TLS
  if (tls) write_files(directory_.path());
#endif
  if (!start()) throw std::runtime_error("redis-server did not start");
}

RedisServer::~RedisServer() { stop(SIGTERM); }

std::string RedisServer::url(const std::string& prefix) const {
  return (tls_ ? "rediss://" : "redis://") + port_.address() + "/" + prefix;
}

RedisReply RedisServer::command(const std::vector<std::string>& arguments) const {
  auto link = RedisLink::open("127.0.0.1", port(), kRedisPatience, tls_, ca_file());
  if (!link) throw std::runtime_error(link.error().detail);
  Bytes out = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& argument : arguments) {
    out += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  }
  if (auto sent = (*link)->send(out); !sent) throw std::runtime_error(sent.error().detail);
  auto reply = (*link)->receive(1024 * 1024);
  if (!reply) throw std::runtime_error(reply.error().detail);
  if (reply->kind == RedisReply::Kind::error) throw std::runtime_error(reply->text);
  return *reply;
}

void RedisServer::kill_and_restart() {
  stop(SIGKILL);
  if (!start()) throw std::runtime_error("redis-server did not start again");
}

bool RedisServer::start() {
  const std::string file = program();
  const std::string port = std::to_string(port_.number());
  const std::string folder = directory_.path();
  std::vector<std::string> words = {file,
                                    "--port",
                                    tls_ ? "0" : port,
                                    "--bind",
                                    "127.0.0.1",
                                    "--dir",
                                    folder,
                                    "--appendonly",
                                    "yes",
                                    "--appendfsync",
                                    "always",
                                    "--save",
                                    "",
                                    "--daemonize",
                                    "no"};
  if (tls_) {
    words.insert(words.end(), {"--tls-port", port, "--tls-auth-clients", "no", "--tls-cert-file",
                               folder + "/tls.crt", "--tls-key-file", folder + "/tls.key",
                               "--tls-ca-cert-file", folder + "/ca.crt"});
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return false;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(pipe[1], STDOUT_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    ::execv(file.c_str(), pointers.data());
    ::_exit(1);
  }
  ::close(pipe[1]);
  output_ = pipe[0];
  if (pid_ > 0 && wait_for(output_, "Ready to accept connections")) return true;
  stop(SIGKILL);
  return false;
}

void RedisServer::stop(int signal) {
  if (pid_ > 0) {
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) ::close(output_);
  pid_ = -1;
  output_ = -1;
}

}  // namespace c10dd::store
