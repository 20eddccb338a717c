// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/client_processes.h"

#include <signal.h>

#include <filesystem>

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

}  // namespace

ClientProcesses::ClientProcesses(const ClientProcessOptions& options) : options_(options) {
  for (unsigned i = 0; i < options_.size; ++i) members_.push_back(hire());
}

ClientProcesses::Member ClientProcesses::hire() {
  const unsigned number = ++hired_;
  const std::vector<std::string> command = {options_.program,
                                            "--worker",
                                            std::to_string(number),
                                            "--seed",
                                            std::to_string(options_.seed + number * 1'000'000),
                                            "--url",
                                            options_.url};
  return {number, std::make_unique<Child>(command, options_.directory + "/workers.log")};
}

void ClientProcesses::begin(const Place& place) {
  place_ = place;
  ++rounds_;
  killed_.clear();
  for (const Member& member : members_) member.child->send(begin_line(member.number));
}

std::string ClientProcesses::begin_line(unsigned number) const {
  return "begin " + place_.prefix + " " + std::to_string(place_.watch_from) + " " + path(number);
}

std::string ClientProcesses::path(unsigned number) const {
  return options_.directory + "/history-" + std::to_string(rounds_) + "-" + std::to_string(number);
}

/// Sends the command to all processes and waits for their replies. Skips replies to earlier
/// commands.
std::vector<unsigned> ClientProcesses::obey(const std::string& command) {
  std::vector<unsigned> late;
  for (const Member& member : members_) member.child->send(command);
  for (const Member& member : members_) {
    const std::uint64_t deadline = now() + std::uint64_t{(kPatience + 20s) / 1ns};
    std::optional<std::string> line;
    do {
      line = member.child->line(std::chrono::nanoseconds(deadline - std::min(deadline, now())));
    } while (line && *line != command);
    if (!line) late.push_back(member.number);
  }
  return late;
}

void ClientProcesses::kill_one(std::uint64_t choice) {
  if (members_.size() < 2) return;
  Member& member = members_[1 + choice % (members_.size() - 1)];
  killed_.insert(member.number);
  member.child->signal(SIGKILL);
  member.child->wait(20s);
  member = hire();
  member.child->send(begin_line(member.number));
}

std::vector<std::string> ClientProcesses::quit() {
  std::vector<std::string> bad;
  for (const Member& member : members_) member.child->send("quit");
  for (Member& member : members_) {
    const auto status = member.child->wait(20s);
    if (status != 0) {
      bad.push_back("process " + std::to_string(member.number) + ": " +
                    (status ? describe_end(*status) : "did not end"));
    }
  }
  members_.clear();
  return bad;
}

std::set<unsigned> ClientProcesses::living() const {
  std::set<unsigned> living;
  for (const Member& member : members_) living.insert(member.number);
  return living;
}

std::set<unsigned> ClientProcesses::numbers() const {
  std::set<unsigned> all = living();
  all.insert(killed_.begin(), killed_.end());
  return all;
}

std::map<unsigned, History> ClientProcesses::histories() const {
  std::map<unsigned, History> histories;
  for (const unsigned number : numbers()) {
    // A process that was killed before it began has written nothing.
    histories[number] = read_history(path(number), number);
  }
  return histories;
}

void ClientProcesses::remove_histories() const {
  for (const unsigned number : numbers()) std::filesystem::remove(path(number));
}

}  // namespace c10dd::torture
