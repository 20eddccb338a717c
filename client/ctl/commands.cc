// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/commands.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <sstream>

#include "client/client.h"
#include "client/ctl/ca.h"
#include "client/ctl/diagnose.h"
#include "client/ctl/flight.h"
#include "client/ctl/page.h"
#include "client/ctl/request.h"
#include "client/ctl/table.h"
#include "client/errors.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;

std::string first_address(const json::value& of, std::string_view pointer) {
  return cell(of, std::string(pointer) + "/0");
}

/// Returns the page /readyz as JSON.
json::object readiness(const client::HostPort& daemon, const Reply& reply) {
  json::object row = {{"address", daemon.text()}, {"ready", reply.status == 200}};
  std::istringstream lines(reply.body);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, colon);
    row[name == "not ready" ? "not_ready" : name] = line.substr(colon + 2);
  }
  return row;
}

Outcome status(const Arguments& of) {
  Table table({"DAEMON", "READY", "ENGINE", "DURABILITY", "NOTE"});
  json::array daemons;
  bool all_ready = true;
  bool any = false;
  for (const client::HostPort& daemon : of.daemons) {
    const Result<Reply> reply =
        ask(daemon, {.path = "/readyz", .accept = "text/plain"}, of.timeout);
    json::object row = {{"address", daemon.text()}, {"ready", false}};
    if (reply)
      row = readiness(daemon, *reply);
    else
      row["not_ready"] = reply.error().detail;
    any = any || reply;
    all_ready = all_ready && row["ready"].as_bool();
    const json::value seen = row;
    std::string note = cell(seen, "/not_ready");
    const std::string other = cell(seen, "/note");
    if (!other.empty()) note += (note.empty() ? "" : "; ") + other;
    table.add({daemon.text(), cell(seen, "/ready"), cell(seen, "/engine"),
               cell(seen, "/durability"), note});
    daemons.push_back(std::move(row));
  }
  const json::value page = {{"daemons", std::move(daemons)}};
  Outcome outcome = shown(of, page, table);
  if (!all_ready) outcome.code = any ? exit_code::kTryAgain : exit_code::kUnreachable;
  return outcome;
}

/// Returns whether a daemon of /v1/daemons was not heard for its lease.
bool is_silent(const json::value& row) {
  const std::optional<double> lease = number_in(row, "/lease_seconds");
  const std::optional<double> silent = number_in(row, "/silence_ms");
  return lease && silent && *silent >= 1000 * *lease;
}

/// `known`: the daemon that was asked hears the fleet.
std::string state_of(const json::value& row, bool known) {
  if (!known) return "unknown";
  if (is_silent(row)) return "silent (dead or unreachable)";
  return cell(row, "/draining") == "yes" ? "shutting down" : "serves";
}

Outcome daemons(const Arguments& of) {
  const Page page = page_of(ask_any(of, {.path = "/v1/daemons"}));
  if (!page.body) return page.failed;
  Table table({"DAEMON", "VERSION", "LEASE", "SILENT", "JOBS", "STATE"});
  const bool known = cell(*page.body, "/problem").empty();
  for (const json::value& row : list_in(*page.body, "daemons")) {
    const std::string lease = cell(row, "/lease_seconds");
    const std::string silent = cell(row, "/silence_ms");
    table.add({first_address(row, "/addresses"), cell(row, "/version"),
               lease.empty() ? "" : lease + " s", silent.empty() ? "" : silent + " ms",
               cell(row, "/jobs"), state_of(row, known)});
  }
  return shown(of, *page.body, table);
}

/// The other daemons of the fleet that are not silent, at their first addresses.
std::vector<client::HostPort> others_of(const Arguments& of) {
  std::vector<client::HostPort> others;
  const Page fleet = page_of(ask_any(of, {.path = "/v1/daemons"}));
  if (!fleet.body) return others;
  for (const json::value& row : list_in(*fleet.body, "daemons")) {
    if (cell(row, "/here") == "yes" || is_silent(row)) continue;
    const auto url = client::parse_url("c10dd://" + first_address(row, "/addresses") + "/any");
    if (url) others.push_back(url->daemons.front());
  }
  return others;
}

/// Returns whether a daemon is loading this run.
bool is_loading(const json::value& run) { return !cell(run, "/loading/rows").empty(); }

/// Returns for example "1200000 of 4000000 rows restored in 3.1 s".
std::string load_text(const json::value& run) {
  const std::string of = cell(run, "/loading/of_rows");
  return cell(run, "/loading/rows") + (of.empty() ? "" : " of " + of) + " rows restored in " +
         cell(run, "/loading/seconds") + " s";
}

/// The runs of all daemons.
struct AllRuns {
  Page page;  ///< of the first daemon that answers
  std::map<std::pair<std::string, std::string>, json::value> runs = {};  ///< by job and run
  std::string silent = {};  ///< daemons that were not reached, and why
};

/// A daemon knows the owners of all runs, and the contents of its own. So all are asked.
AllRuns all_runs(const Arguments& of) {
  AllRuns all{page_of(ask_any(of, {.path = "/v1/jobs"}))};
  if (!all.page.body) return all;
  const auto add = [&](const json::value& body) {
    for (const json::value& run : list_in(body, "jobs")) {
      json::value& known = all.runs[{cell(run, "/job"), cell(run, "/run")}];
      const bool is_owner = !cell(run, "/revision").empty() || is_loading(run);
      if (known.is_null() || is_owner) known = run;
    }
  };
  add(*all.page.body);
  for (const client::HostPort& other : others_of(of)) {
    Arguments one = of;
    one.daemons = {other};
    const Page more = page_of(ask_any(one, {.path = "/v1/jobs"}));
    if (more.body)
      add(*more.body);
    else
      all.silent += (all.silent.empty() ? "" : "\n") + more.failed.error;
  }
  return all;
}

/// Takes the runs out, those that do not go on first, otherwise by job and run.
std::vector<std::pair<json::value, RunDiagnosis>> worst_first(AllRuns& all) {
  std::vector<std::pair<json::value, RunDiagnosis>> rows;
  for (auto& [name, run] : all.runs) {
    RunDiagnosis diagnosis = diagnosis_of(run);
    rows.emplace_back(std::move(run), std::move(diagnosis));
  }
  std::ranges::stable_sort(rows, is_worse, &std::pair<json::value, RunDiagnosis>::second);
  return rows;
}

Outcome jobs(const Arguments& of) {
  AllRuns all = all_runs(of);
  Page& page = all.page;
  if (!page.body) return page.failed;
  Table table({"JOB", "RUN", "OWNER", "EPOCH", "KEYS", "BYTES", "QUEUED", "SESSIONS", "BLOCKED",
               "STATE", "DIAGNOSIS"});
  json::array list;
  for (auto& [run, diagnosis] : worst_first(all)) {
    table.add({cell(run, "/job"), cell(run, "/run"), first_address(run, "/owner/addresses"),
               cell(run, "/owner/epoch"), cell(run, "/keys"), cell(run, "/bytes"),
               cell(run, "/queue_items"), cell(run, "/sessions"), cell(run, "/waiters"),
               is_loading(run) ? "loading" : state_word(diagnosis),
               is_loading(run) ? load_text(run) : diagnosis.sentence});
    list.push_back(std::move(run));
  }
  page.body->as_object()["jobs"] = std::move(list);
  Outcome outcome = shown(of, *page.body, table);
  if (outcome.error.empty() && !all.silent.empty()) {
    outcome = {exit_code::kTryAgain, outcome.output, all.silent};
  }
  return outcome;
}

Outcome job(const Arguments& of) {
  const FirstReply first = ask_any(of, {.path = "/v1/jobs/" + in_path(of.operands[0]),
                                        .accept = of.json ? "application/json" : "text/plain"});
  if (!first.reply) return first.failed;
  if (first.reply->status != 200) return refused(*first.reply);
  return {0, first.reply->body, {}};
}

Outcome move(const Arguments& of) {
  const json::value body = {{"to", of.operands[1]}};
  const Page page = page_of(ask_any(of, {.method = "POST",
                                         .path = "/v1/jobs/" + in_path(of.operands[0]) + "/move",
                                         .body = c10dd::json::text_of(body)}));
  if (!page.body) return page.failed;
  if (of.json) return {0, c10dd::json::text_of(*page.body) + "\n", {}};
  const std::string note = cell(*page.body, "/note");
  if (!note.empty()) return {0, note + "\n", {}};
  std::string text;
  for (const json::value& run : list_in(*page.body, "runs")) {
    const std::string name = cell(run, "");
    text += format("moved {}{} to {}\n", of.operands[0], name.empty() ? "" : " run " + name,
                   of.operands[1]);
  }
  return {0, text, {}};
}

Outcome remove_one(const Arguments& of, const std::string& name) {
  const FirstReply first = ask_any(of, {.method = "DELETE", .path = "/v1/jobs/" + in_path(name)});
  if (!first.reply) return first.failed;
  if (first.reply->status / 100 != 2) return refused(*first.reply);
  if (of.json) return {0, first.reply->body + (first.reply->body.empty() ? "" : "\n"), {}};
  return {0, format("removed {}\n", name), {}};
}

/// Returns whether the run has a session, or had one less than `limit` ago. A run that no daemon
/// has loaded counts as used if there is a limit, because nobody knows since when it is idle.
bool is_used(const json::value& run, Duration limit) {
  const std::string sessions = cell(run, "/sessions");
  if (sessions.empty()) return limit > Duration{0};
  if (sessions != "0") return true;
  return std::chrono::duration<double>(number_in(run, "/idle_seconds").value_or(0)) < limit;
}

/// Removes the jobs that have neither a connected session nor an endpoint, and whose runs are idle
/// for as long as --idle says. A job that somebody uses meanwhile is not removed: the daemon
/// refuses it.
Outcome remove_idle(const Arguments& of) {
  const AllRuns all = all_runs(of);
  if (!all.page.body) return all.page.failed;
  if (!all.silent.empty()) return {exit_code::kTryAgain, "", all.silent};  // it may have sessions
  std::map<std::string, bool> used;
  for (const auto& [name, run] : all.runs) {
    used[name.first] = used[name.first] || is_used(run, *of.idle);
  }
  Outcome sum;
  for (const auto& [name, in_use] : used) {
    if (in_use) continue;
    const Page page = page_of(ask_any(of, {.path = "/v1/jobs/" + in_path(name) + "/endpoints"}));
    if (page.body && !list_in(*page.body, "endpoints").empty()) continue;
    const Outcome one = page.body ? remove_one(of, name) : page.failed;
    sum.output += one.output;
    if (one.code == 0) continue;
    sum.code = one.code;
    sum.error += (sum.error.empty() ? "" : "\n") + one.error;
  }
  return sum;
}

Outcome remove(const Arguments& of) {
  return of.idle ? remove_idle(of) : remove_one(of, of.operands[0]);
}

/// Uses the native protocol, which is not only served to the daemon's machine, and which no proxy
/// for HTTP is asked for.
Outcome lease(const Arguments& of) {
  client::Url url;
  url.daemons = of.daemons;
  url.job = of.operands[0];
  try {
    ClientOptions options;
    options.timeout = of.timeout;
    const auto client = Client::connect(url.text(), options);
    const LeasedEndpoint leased =
        client->lease_endpoint(of.endpoint, {.run = of.run, .world_size = of.world_size});
    if (!of.json) {
      return {0, format("MASTER_ADDR={} MASTER_PORT={}\n", leased.host, leased.port), {}};
    }
    const json::value page = {{"host", leased.host}, {"port", leased.port}};
    return {0, c10dd::json::text_of(page) + "\n", {}};
  } catch (const InvalidArgument& error) {
    return {exit_code::kUsage, "", error.what()};
  } catch (const TimedOut& error) {
    return {exit_code::kUnreachable, "", error.what()};
  } catch (const Unavailable& error) {
    return {exit_code::kTryAgain, "", error.what()};
  } catch (const QuotaExceeded& error) {
    return {exit_code::kTryAgain, "", error.what()};
  } catch (const Error& error) {
    const bool denied = error.code() == Code::permission_denied;
    return {denied ? exit_code::kNoPermission : exit_code::kUsage, "", error.what()};
  }
}

/// Returns a command of the group `ca` at the present time.
auto now(Outcome (*command)(const Arguments&, tls::WallTime)) {
  return [command](const Arguments& of) {
    const auto time = std::chrono::system_clock::now();
    return command(of, std::chrono::floor<std::chrono::seconds>(time));
  };
}

}  // namespace

Outcome run(const Arguments& arguments) {
  static const std::map<std::string, std::function<Outcome(const Arguments&)>> commands = {
      {"status", status},
      {"daemons", daemons},
      {"jobs", jobs},
      {"job", job},
      {"move", move},
      {"rm", remove},
      {"lease", lease},
      {"flight", flight},
      {"ca init", now(ca_init)},
      {"ca daemon", now(ca_daemon)},
      {"ca renew", now(ca_renew)},
      {"ca token", now(ca_token)},
      {"ca show", now(ca_show)},
      {"diagnose",
       [](const Arguments& of) { return diagnose(of, std::chrono::system_clock::now()); }}};
  Outcome outcome = commands.at(arguments.command)(arguments);
  outcome.output = printable_lines(outcome.output);
  outcome.error = printable_lines(outcome.error);
  return outcome;
}

}  // namespace c10dd::ctl
