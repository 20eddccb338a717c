// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/job_page.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <map>
#include <set>
#include <span>

#include "daemon/http/diagnosis_json.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kKeyShown = 256;
constexpr std::size_t kProcessesShown = 16;  // of those that wait for one key

/// One run, with what is known of its ranks.
class RunPage {
 public:
  explicit RunPage(const core::RunReport& run)
      : run_(run), seen_(run.view.ranks), trainers_(!run.plain && run.view.trainers) {
    if (!run.plain) return;
    left_ = seen_;
    for (const core::PlainRuns::Rank& rank : run.plain->ranks) {
      seen_.insert(rank.rank);
      left_.erase(rank.rank);
      const bool known = rank.peer.pid != 0;
      ranks_.emplace(
          core::WaitingProcess{rank.peer.address, rank.peer.pid, known ? 0 : rank.connection},
          rank.rank);
      trainers_ = trainers_ || rank.key.find("torchelastic/") == std::string::npos;
    }
  }

  std::string summary() const {
    const std::string name = run_.job.run.empty() ? "no run" : shown(run_.job.run);
    std::string text = name + ": " +
                       (run_.plain ? format("{} joined", run_.plain->joined)
                                   : format("{} session{}", run_.job.stats.sessions,
                                            run_.job.stats.sessions == 1 ? "" : "s"));
    text += run_.view.world_size ? format(" of {}", *run_.view.world_size)
                                 : std::string(run_.plain ? ", world size not known" : "");
    if (!seen_.empty()) text += "; ranks seen: " + fold_set(seen_);
    if (const auto ranks = missing()) {
      text += "; ranks missing: " + (ranks->empty() ? "none" : fold(*ranks));
    }
    if (!left_.empty()) text += "; ranks that have left: " + fold_set(left_);
    for (const core::KeyWait& wait : run_.view.waits) text += "; " + sentence(wait);
    if (run_.view.more_waits > 0) {
      text += format("; {} more keys are awaited", run_.view.more_waits);
    }
    for (const core::UnfinishedBarrier& one : run_.view.barriers) {
      text += format("; {}: {}", one.name, one.missing);
    }
    if (!run_.view.differing.empty()) text += "; " + world_sizes();
    if (run_.plain && !run_.plain->refused.empty()) text += "; " + run_.plain->refused;
    return text;
  }

  boost::json::object json() const {
    const core::JobReport& job = run_.job;
    boost::json::object out = {
        {"run", shown(job.run)},        {"number", std::to_string(job.number)},
        {"keys", job.stats.keys},       {"sessions", job.stats.sessions},
        {"waiters", job.stats.waiters}, {"summary", summary()}};
    out["world_size"] = run_.view.world_size ? boost::json::value(*run_.view.world_size)
                                             : boost::json::value(nullptr);
    if (run_.plain) {
      out["connections"] = run_.plain->connections;
      out["joined"] = run_.plain->joined;
    }
    out["ranks"] = ranks();
    const auto absent = missing();
    out["missing"] =
        absent ? boost::json::value(boost::json::array(absent->begin(), absent->end())) : nullptr;
    out["left"] = boost::json::array(left_.begin(), left_.end());
    boost::json::array sizes;
    for (const auto& [size, told] : run_.view.differing) {
      sizes.push_back(
          {{"world_size", size}, {"ranks", boost::json::array(told.begin(), told.end())}});
    }
    out["world_sizes"] = std::move(sizes);
    boost::json::array waits;
    for (const core::KeyWait& wait : run_.view.waits) waits.push_back(json_of(wait));
    out["waits"] = std::move(waits);
    boost::json::array barriers;
    for (const core::UnfinishedBarrier& one : run_.view.barriers) {
      barriers.push_back({{"name", one.name},
                          {"world_size", one.world_size},
                          {"seconds", seconds_of(one.waiting)},
                          {"missing", boost::json::array(one.ranks.begin(), one.ranks.end())},
                          {"detail", one.missing}});
    }
    out["barriers"] = std::move(barriers);
    out["diagnosis"] = diagnosis_json(job, std::chrono::system_clock::now());
    return out;
  }

 private:
  static std::string shown(std::string_view text) { return printable(text, kKeyShown); }

  /// Names the ranks that tell each world size, with their hosts if they are connected.
  std::string world_sizes() const {
    if (run_.plain && !run_.plain->differing.empty()) return run_.plain->differing;
    std::string text = "the ranks report different world sizes: ";
    for (const auto& [size, told] : run_.view.differing) {
      const bool first = size == run_.view.differing.begin()->first;
      text += format("{}{} by ranks {}", first ? "" : "; ", size, fold_set(told));
    }
    return text + "; start all ranks with the same world size";
  }

  bool is_missing(const core::KeyWait& wait) const {
    return wait.rank && !seen_.contains(*wait.rank);
  }

  /// Returns the ranks that have not come. Returns nothing if the number of ranks is not known, or
  /// only agents have come, whose ranks are those of nodes.
  std::optional<std::vector<Rank>> missing() const {
    if (!trainers_ || !run_.view.world_size) return std::nullopt;
    const std::uint64_t size = std::min<std::uint64_t>(*run_.view.world_size, limits::kWorldSize);
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < size; ++rank) {
      if (!seen_.contains(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  /// Returns the known ranks of the processes that wait for a key.
  std::set<Rank> waiting(const core::KeyWait& wait) const {
    std::set<Rank> ranks;
    for (const core::WaitingProcess& process : wait.processes) {
      if (const auto rank = ranks_.find(process); rank != ranks_.end()) ranks.insert(rank->second);
    }
    return ranks;
  }

  /// Names a process: by its rank, if its rank's key is known.
  std::string name_of(const core::WaitingProcess& process) const {
    std::string text;
    if (const auto rank = ranks_.find(process); rank != ranks_.end()) {
      text = format("rank {} on ", rank->second);
    }
    text += process.host.empty() ? "an unknown host" : shown(process.host);
    return process.pid == 0 ? text : text + format(" (pid {})", process.pid);
  }

  std::string sentence(const core::KeyWait& wait) const {
    std::string text =
        format("{} wait{} for {}", wait.waiters, wait.waiters == 1 ? "s" : "", shown(wait.key));
    if (wait.at_least) text += format(" to be {}", *wait.at_least);
    if (wait.rank) text += format(", of rank {}", *wait.rank);
    if (is_missing(wait)) text += ", not seen";
    return text + waiters(wait);
  }

  /// Names the processes that wait for a key: if they are many, by their ranks only.
  std::string waiters(const core::KeyWait& wait) const {
    if (wait.processes.size() > kProcessesShown) {
      const std::set<Rank> ranks = waiting(wait);
      if (ranks.size() < wait.processes.size()) {
        return format(": {} processes, of them ranks {}", wait.processes.size(), fold_set(ranks));
      }
      return ": ranks " + fold_set(ranks);
    }
    std::string text;
    for (std::size_t i = 0; i < wait.processes.size(); ++i) {
      text += (i == 0 ? ": " : ", ") + name_of(wait.processes[i]);
    }
    return text;
  }
  static std::string fold_set(const std::set<Rank>& ranks) {
    return fold(std::vector<Rank>(ranks.begin(), ranks.end()));
  }

  boost::json::array ranks() const {
    std::map<std::uint32_t, boost::json::object> all;
    for (const std::uint32_t rank : seen_) all[rank] = {{"rank", rank}};
    for (const auto& [process, rank] : ranks_) {
      all[rank]["host"] = shown(process.host);
      if (process.pid != 0) all[rank]["pid"] = process.pid;
    }
    boost::json::array list;
    for (auto& [rank, entry] : all) list.push_back(std::move(entry));
    return list;
  }

  boost::json::object json_of(const core::KeyWait& wait) const {
    boost::json::array processes;
    for (const core::WaitingProcess& process :
         std::span(wait.processes).first(std::min(wait.processes.size(), kProcessesShown))) {
      processes.push_back(boost::json::string(name_of(process)));
    }
    const std::set<Rank> ranks = waiting(wait);
    boost::json::object out = {{"key", shown(wait.key)},
                               {"waiters", wait.waiters},
                               {"longest_seconds", seconds_of(wait.longest)},
                               {"processes", std::move(processes)},
                               {"ranks", boost::json::array(ranks.begin(), ranks.end())}};
    if (wait.at_least) out["at_least"] = std::to_string(*wait.at_least);
    if (wait.rank) out["rank"] = *wait.rank;
    if (wait.rank) out["seen"] = !is_missing(wait);
    return out;
  }

  const core::RunReport& run_;
  std::set<Rank> seen_;
  std::set<Rank> left_;  // ranks whose key is set, but not by a connection that is open
  std::map<core::WaitingProcess, Rank> ranks_;  // of the processes whose rank's key is known
  bool trainers_ = false;                       // a rank of a process group has set its key
};

std::uint64_t number_of(const boost::json::value& run) {
  boost::system::error_code none;
  const auto* const number = run.find_pointer("/number", none);
  if (number == nullptr) return 0;
  if (const auto* const digits = number->if_string()) {
    return parse_number<std::uint64_t>(std::string_view(*digits)).value_or(0);
  }
  return number->to_number<std::uint64_t>(none);  // of a daemon of an earlier version
}

/// Adds the elements of a list of the page of another daemon.
void add_list(const std::string& page, const char* list, boost::json::array& runs) {
  boost::system::error_code none;
  boost::json::value body = boost::json::parse(page, none);
  auto* const more = none ? nullptr : body.find_pointer(list, none);
  if (more == nullptr || !more->is_array()) return;
  for (boost::json::value& run : more->get_array()) runs.push_back(std::move(run));
}

std::string line_of(const core::LoadReport& load) {
  const std::string name = load.run.empty() ? "no run" : printable(load.run, kKeyShown);
  return name + ": is being loaded: " + progress_of(load) + "\n";
}

}  // namespace

std::string text_of(const JobPage& page) {
  std::string text;
  for (const core::LoadReport& load : page.loads) text += line_of(load);
  for (const core::RunReport& run : page.runs) {
    text += diagnosis_line(run.job) + RunPage(run).summary() + "\n";
  }
  for (const std::string& more : page.elsewhere) text += more;
  return text;
}

std::string json_of(const JobPage& page) {
  boost::json::array runs;
  for (const core::RunReport& run : page.runs) runs.push_back(RunPage(run).json());
  boost::json::array loading;
  for (const core::LoadReport& load : page.loads) {
    loading.push_back({{"run", printable(load.run, kKeyShown)},
                       {"number", std::to_string(load.number)},
                       {"loading", load_json(load)}});
  }
  for (const std::string& more : page.elsewhere) {
    add_list(more, "/runs", runs);
    add_list(more, "/loading", loading);
  }
  std::ranges::stable_sort(runs, {}, [](const boost::json::value& run) { return number_of(run); });
  boost::json::object body = {{"job", printable(page.job, limits::kNameBytes)},
                              {"runs", std::move(runs)}};
  if (!loading.empty()) body["loading"] = std::move(loading);
  return json::text_of(body) + "\n";
}

boost::json::object load_json(const core::LoadReport& load) {
  boost::json::object out = {
      {"rows", load.rows}, {"bytes", load.bytes}, {"seconds", seconds_of(load.took)}};
  if (load.of_rows) out["of_rows"] = *load.of_rows;
  return out;
}

}  // namespace c10dd::daemon
