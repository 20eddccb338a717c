// SPDX-License-Identifier: Apache-2.0
// The client processes of the kill loop. Each lives until it is killed. Then another process, with
// a new number, takes its place.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/torture/child.h"
#include "tests/torture/desk.h"

namespace c10dd::torture {

struct ClientProcessOptions {
  std::string program;  ///< this one
  std::string url;
  std::string directory;
  std::uint64_t seed = 0;
  unsigned size = 3;
};

class ClientProcesses {
 public:
  explicit ClientProcesses(const ClientProcessOptions& options);

  void begin(const Place& place);
  /// Returns the numbers of the processes that have not stopped in time.
  std::vector<unsigned> stop() { return obey("stop"); }
  std::vector<unsigned> finish() { return obey("finish"); }

  /// Kills one process, but never the first, by SIGKILL. Another one takes its place.
  void kill_one(std::uint64_t choice);

  /// Ends all processes, which close their clients as a normal program does. Describes bad exits.
  std::vector<std::string> quit();

  std::set<unsigned> living() const;
  const std::set<unsigned>& killed() const { return killed_; }  ///< in this round
  /// Returns the histories of all processes of this round, by number.
  std::map<unsigned, History> histories() const;
  void remove_histories() const;

 private:
  struct Member {
    unsigned number = 0;
    std::unique_ptr<Child> child;
  };

  Member hire();
  std::string begin_line(unsigned number) const;
  std::string path(unsigned number) const;
  std::vector<unsigned> obey(const std::string& command);
  std::set<unsigned> numbers() const;

  const ClientProcessOptions options_;
  std::vector<Member> members_;
  Place place_;
  unsigned rounds_ = 0;
  unsigned hired_ = 0;
  std::set<unsigned> killed_;
};

}  // namespace c10dd::torture
