// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/workers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "client/errors.h"
#include "client/launcher/address.h"
#include "client/launcher/error_file.h"
#include "client/launcher/worker.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"

namespace c10dd::run {
namespace {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw Fatal(exit_code::kCannotCreate,
                format("cannot create folder {}: {}", path, error.message()));
  }
}

client::Descriptor open_log(const std::string& path) {
  client::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) {
    throw Fatal(exit_code::kCannotCreate,
                format("cannot create log file {}: {}", path, client::error_text(errno)));
  }
  return file;
}

}  // namespace

Workers::Workers(WorkersContext& home, const Options& options, const Plan& plan)
    : home_(home), options_(options), plan_(plan) {}

Workers::~Workers() {
  if (typed_) typed_->stop();
  for (const auto& worker : workers_) {
    if (worker->running()) home_.orphan_killer.forget(worker->pid());
    worker->abandon();
  }
}

/// Opens the store of this generation's run: a port of this node, which passes on to the daemon.
void Workers::open_store() {
  proxy::ProxySettings settings;
  for (const client::HostPort& daemon : options_.daemon.daemons) {
    settings.daemons.push_back(daemon.text());
  }
  settings.job = options_.daemon.job;
  settings.run = worker_run(options_.run, plan_);
  settings.host = host_name();
  settings.says_absences = false;
  settings.say = [&loop = home_.loop, &console = home_.console](const std::string& line) {
    boost::asio::post(loop, [&console, line] { console.note(line); });
  };
  try {
    store_ = std::make_unique<proxy::Proxy>(std::move(settings));
  } catch (const Error& error) {
    throw Fatal(
        exit_code::kUnreachable,
        format("cannot open the store of the workers: {}; use --store rank0", error.what()));
  }
  plan_.store_port = std::to_string(store_->port());
}

void Workers::start() {
  if (!plan_.store_in_rank0) open_store();
  for (std::uint32_t local = 0; local < plan_.local_size; ++local) {
    const std::uint32_t rank = plan_.first_rank + local;
    make_folder(folder(rank));
    LogFiles files;
    if (!options_.log_dir.empty()) {
      files = {open_log(folder(rank) + "/stdout.log"), open_log(folder(rank) + "/stderr.log")};
    }
    const client::Descriptor input = input_of(rank);
    Child child = spawn(
        home_.program, options_.command,
        worker_environment(home_.inherited, options_, plan_, local, error_file(rank)), input.get());
    home_.orphan_killer.watch(child.pid);
    const bool shown = options_.console_ranks.empty() || options_.console_ranks.contains(local);
    workers_.push_back(std::make_shared<Worker>(home_.loop, shown ? home_.console : home_.silence,
                                                rank, std::move(child), std::move(files)));
    ++running_;
    Worker& worker = *workers_.back();
    worker.start([this, &worker] { home_.orphan_killer.forget(worker.pid()); },
                 [this, &worker] { ended(worker); });
  }
}

/// Returns the standard input of a worker. Empty: it reads nothing.
client::Descriptor Workers::input_of(std::uint32_t rank) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  const bool chosen = options_.stdin_rank < 0 ? terminal && plan_.world_size == 1
                                              : options_.stdin_rank == std::int64_t{rank};
  if (!chosen) return client::Descriptor();
  if (!terminal) return client::Descriptor(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  typed_ = std::make_shared<TerminalInput>(home_.loop, STDIN_FILENO);
  typed_->start();
  return typed_->take_worker_end();
}

std::string Workers::folder(std::uint32_t rank) const {
  const std::string base =
      options_.log_dir.empty() ? home_.scratch : options_.log_dir + "/" + plan_.launch;
  return format("{}/{}/{}", base, plan_.generation, rank);
}

void Workers::ended(const Worker& worker) {
  --running_;
  if (stopping_ || failure_ || worker.exit().well()) return;
  failure_ = FailedWorker{worker.rank(), worker.pid(), worker.exit(), worker.last(),
                          read_error_file(error_file(worker.rank()))};
}

std::size_t Workers::forward(int signal) const {
  std::size_t sent = 0;
  for (const auto& worker : workers_) {
    if (signal == SIGCONT) worker->signal(signal);  // wakes also who does not handle it
    if (signal != SIGCONT) sent += worker->signal_handlers(signal);
  }
  return sent;
}

void Workers::pass_on(int signal) {
  if (!stopping_) stopped_ = running_;
  stopping_ = true;
  for (const auto& worker : workers_) worker->signal(signal);
}

}  // namespace c10dd::run
