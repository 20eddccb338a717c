// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/standalone.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <vector>

#include "client/launcher/options.h"
#include "protocol/exit_codes.h"

namespace c10dd::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStart{20};
constexpr std::chrono::seconds kStop{5};

/// Returns the environment without C10DD_* variables, which are meant for other daemons.
std::vector<std::string> without_our_variables(const std::map<std::string, std::string>& all) {
  std::vector<std::string> kept;
  for (const auto& [name, value] : all) {
    if (!name.starts_with("C10DD_")) kept.emplace_back(name).append("=").append(value);
  }
  return kept;
}

/// Returns the first line of the daemon's output, "listening on 127.0.0.1:29500". Returns an empty
/// text if no whole line comes within kStart.
std::string first_line(const client::Descriptor& out) {
  const auto deadline = Clock::now() + kStart;
  std::string line;
  while (line.find('\n') == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd ready{out.get(), POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) < 0) break;
    char bytes[512];
    const ssize_t n = read(out.get(), bytes, sizeof bytes);
    if (n == 0) break;
    if (n > 0) line.append(bytes, static_cast<std::size_t>(n));
  }
  const std::size_t end = line.find('\n');
  return end == std::string::npos ? "" : line.substr(0, end);
}

}  // namespace

std::string daemon_program() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string path = (self.parent_path() / "c10dd").string();
  if (error || access(path.c_str(), X_OK) != 0) {
    throw Fatal(kNotFound,
                "--standalone: cannot execute the daemon " + path +
                    "; install c10dd in the folder of c10drun, or use --daemon HOST:PORT");
  }
  return path;
}

Standalone::Standalone(boost::asio::io_context& loop, OrphanKiller& orphan_killer,
                       const std::string& program,
                       const std::map<std::string, std::string>& inherited, const std::string& log)
    : loop_(loop), orphan_killer_(orphan_killer) {
  client::Descriptor file(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  Child child =
      spawn(program, {program, "--listen", "127.0.0.1:0", "--engine", "memory:", "--shards", "1"},
            without_our_variables(inherited));
  orphan_killer_.watch(child.pid);
  const std::string line = first_line(child.out);
  const std::size_t colon = line.rfind(':');
  if (line.starts_with("listening on ") && colon != std::string::npos) {
    std::from_chars(line.data() + colon + 1, line.data() + line.size(), port_);
  }
  process_ =
      std::make_shared<Worker>(loop, silence_, 0, std::move(child), LogFiles{{}, std::move(file)});
  process_->start([this] { orphan_killer_.forget(process_->pid()); }, [] {});
  if (port_ != 0) return;
  process_->signal(SIGKILL);
  while (process_->running()) loop_.run_one();
  throw Fatal(exit_code::kUnreachable, "--standalone: the daemon did not start: it " + end());
}

Standalone::~Standalone() {
  process_->signal(SIGTERM);
  const auto deadline = Clock::now() + kStop;
  while (process_->running() && Clock::now() < deadline) {
    loop_.run_one_for(std::chrono::milliseconds(100));
  }
  if (process_->running()) orphan_killer_.forget(process_->pid());
  process_->abandon();
}

std::string Standalone::end() const {
  std::string text = process_->exit().text();
  if (!process_->last().empty()) text += "; last lines:\n" + process_->last().text(2'048, "  ");
  return text;
}

}  // namespace c10dd::run
