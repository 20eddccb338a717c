// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/watch.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <ctime>
#include <map>

#include "protocol/exit_codes.h"
#include "protocol/json_text.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;

class Watch {
 public:
  Watch(const Arguments& of, const WatchHooks& hooks) : of_(of), hooks_(hooks) {}

  int run() {
    while (look() && hooks_.pause()) {
    }
    return code_;
  }

 private:
  /// Asks once, and writes what has changed. Returns false if the watch cannot go on.
  bool look() {
    const DiagnosisPage found = ask_diagnosis(of_);
    const Outcome& failed = found.page.failed;
    if (found.page.body || found.page.status == 404) {
      if (away_) warn("a daemon answers again");
      away_ = false;
      return found.page.body ? show(found) : show_none(failed);
    }
    const bool temporary =
        failed.code == exit_code::kTryAgain || failed.code == exit_code::kUnreachable;
    if (!temporary) {
      set_code(failed.code);
      warn(failed.error);
      return false;
    }
    if (!answered_) set_code(failed.code);
    if (!away_) warn(failed.error + "; c10ddctl asks again every second");
    away_ = true;
    return true;
  }

  void set_code(int code) {
    code_ = code;
    hooks_.set_code(code);
  }

  /// No run of the job is loaded.
  bool show_none(const Outcome& failed) {
    set_code(failed.code);
    if (!answered_) warn(failed.error);
    answered_ = true;
    return drop_all_but({});
  }

  bool show(const DiagnosisPage& found) {
    set_code(found.runs.empty() ? exit_code::kUsage : code_of(found.runs));
    if (found.runs.empty() && !answered_) warn(no_such_run(of_, found.names));
    answered_ = true;
    if (!drop_all_but(found.runs)) return false;
    const json::array& rows = list_in(*found.page.body, "runs");
    for (std::size_t n = 0; n < found.runs.size(); ++n) {
      const RunDiagnosis& one = found.runs[n];
      const auto known = known_.find(one.run);
      if (known != known_.end() && known->second.says_the_same(one)) continue;
      known_[one.run] = one;
      if (!print_change(one, rows[n])) return false;
    }
    return true;
  }

  /// Writes that the other runs are gone.
  bool drop_all_but(const std::vector<RunDiagnosis>& runs) {
    for (auto known = known_.begin(); known != known_.end();) {
      if (std::ranges::find(runs, known->first, &RunDiagnosis::run) != runs.end()) {
        ++known;
        continue;
      }
      const RunDiagnosis gone = known->second;
      known = known_.erase(known);
      if (!print_end(gone)) return false;
    }
    return true;
  }

  bool print_change(const RunDiagnosis& one, const json::value& row) {
    if (!of_.json) return print(line_of(one, hooks_.now()));
    return print_json(one, {{"diagnosis", one.state ? row.at("diagnosis") : nullptr}});
  }

  bool print_end(const RunDiagnosis& one) {
    if (of_.json) return print_json(one, {{"ended", true}});
    return print(name_shown(one) + ": no daemon shows it any more: it has ended, or is not loaded");
  }

  bool print_json(const RunDiagnosis& one, const json::object& more) {
    json::object line = {{"time", time_text(hooks_.now())},
                         {"job", printable_name(of_.operands[0])},
                         {"run", one.run}};
    line.insert(more.begin(), more.end());
    return hooks_.print(printable_lines(c10dd::json::text_of(line)));
  }

  bool print(const std::string& text) { return hooks_.print(time_text(hooks_.now()) + " " + text); }

  /// Writes a text, which may have several lines, as one.
  void warn(const std::string& text) {
    std::string line = time_text(hooks_.now()) + " ";
    for (const char c : text) line += c == '\n' ? "; " : std::string(1, c);
    hooks_.warn(printable(line, line.size()));
  }

  const Arguments& of_;
  const WatchHooks& hooks_;
  std::map<std::string, RunDiagnosis> known_;  // as last written, by the names of their runs
  bool answered_ = false;                      // a daemon has replied
  bool away_ = false;                          // no daemon replied the last time
  int code_ = exit_code::kTryAgain;
};

}  // namespace

std::string time_text(WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

int watch(const Arguments& of, const WatchHooks& hooks) { return Watch(of, hooks).run(); }

}  // namespace c10dd::ctl
