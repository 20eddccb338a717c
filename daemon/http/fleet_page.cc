// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/fleet_page.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <map>

#include "daemon/http/diagnosis_json.h"
#include "daemon/http/endpoint_page.h"
#include "daemon/http/job_page.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr const char* kMoveExample = R"({"to": "head2:29500"})";

boost::json::array list_of(const std::vector<std::string>& texts) {
  boost::json::array list;
  for (const std::string& text : texts) list.push_back(boost::json::string(printable_name(text)));
  return list;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) (list += list.empty() ? "" : ", ") += printable_name(text);
  return list;
}

void add_counts(const core::JobReport& job, boost::json::object& out) {
  out["revision"] = job.revision;
  out["keys"] = job.stats.keys;
  out["bytes"] = job.stats.bytes;
  out["queue_items"] = job.stats.queue_items;
  out["sessions"] = job.stats.sessions;
  out["waiters"] = job.stats.waiters;
  out["idle_seconds"] = seconds_of(job.idle);
}

boost::json::value owner_json(const core::RunOwner& of) {
  if (!of.owner) return nullptr;
  return boost::json::object{
      {"addresses", list_of(of.addresses)}, {"epoch", of.owner->epoch}, {"here", of.here}};
}

}  // namespace

std::string text_of(const DaemonsPage& page) {
  std::string text;
  for (const DaemonsPage::Row& row : page.daemons) {
    text += joined(row.addresses) + ": version " + printable_name(row.version);
    if (row.lease) text += ", lease " + human(*row.lease) + ", silent for " + human(row.silent);
    if (page.problem.empty()) text += format(", {} job{}", row.jobs, row.jobs == 1 ? "" : "s");
    if (row.draining) text += ", shutting down";
    if (row.here) text += ", this daemon";
    text += '\n';
  }
  if (!page.problem.empty()) text += "jobs: not known: " + page.problem + "\n";
  return text;
}

std::string json_of(const DaemonsPage& page) {
  boost::json::array list;
  for (const DaemonsPage::Row& row : page.daemons) {
    boost::json::object out = {{"addresses", list_of(row.addresses)},
                               {"version", printable_name(row.version)},
                               {"lease_seconds", nullptr},
                               {"silence_ms", nullptr},
                               {"draining", row.draining},
                               {"here", row.here},
                               {"jobs", nullptr}};
    if (row.lease) {
      out["lease_seconds"] = seconds_of(*row.lease);
      out["silence_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(row.silent).count();
    }
    if (page.problem.empty()) out["jobs"] = row.jobs;
    list.push_back(std::move(out));
  }
  boost::json::object body = {{"daemons", std::move(list)}};
  if (!page.problem.empty()) body["problem"] = page.problem;
  return json::text_of(body) + "\n";
}

std::string json_of(const JobsPage& page) {
  std::map<JobNumber, boost::json::object> all;
  for (const core::RunOwner& of : page.owners) {
    all[of.run.number] = {{"job", printable_name(of.run.job)},
                          {"run", printable_name(of.run.run)},
                          {"number", std::to_string(of.run.number)},
                          {"owner", owner_json(of)}};
  }
  const auto row_of = [&](const auto& job) -> boost::json::object& {
    boost::json::object& out = all[job.number];
    if (out.empty()) {
      out = {{"job", printable_name(job.name)},
             {"run", printable_name(job.run)},
             {"number", std::to_string(job.number)}};
      if (!page.self.empty()) {  // a plain run, or one that is newer than `owners`
        out["owner"] = {{"addresses", list_of(page.self)}, {"epoch", nullptr}, {"here", true}};
      }
    }
    return out;
  };
  const auto now = std::chrono::system_clock::now();
  for (const core::JobReport& job : page.served) {
    boost::json::object& out = row_of(job);
    add_counts(job, out);
    out["diagnosis"] = diagnosis_json(job, now);
  }
  for (const core::LoadReport& load : page.loads) row_of(load)["loading"] = load_json(load);
  boost::json::array list;
  for (auto& [number, job] : all) list.push_back(std::move(job));
  boost::json::object body = {{"jobs", std::move(list)}};
  if (!page.problem.empty()) body["problem"] = page.problem;
  return json::text_of(body) + "\n";
}

Result<std::string> target_of(const HttpRequest& request) {
  const Result<boost::json::object> members = json_body(request, "move", kMoveExample);
  if (!members) return members.error();
  const boost::json::value* const to = members->if_contains("to");
  if (to == nullptr || !to->is_string() || to->as_string().empty() || members->size() != 1) {
    return failure(Code::invalid_argument,
                   "move: body must have one member, a string named to with the address of a "
                   "daemon; send for example {}",
                   kMoveExample);
  }
  return std::string(to->as_string());
}

std::string json_of(const MoveReport& report, const std::vector<std::string>& elsewhere) {
  boost::json::array runs = list_of(report.runs);
  for (const std::string& reply : elsewhere) {
    boost::system::error_code none;
    const boost::json::value body = boost::json::parse(reply, none);
    const auto* const more = none ? nullptr : body.find_pointer("/runs", none);
    if (more == nullptr || !more->is_array()) continue;
    for (const boost::json::value& run : more->get_array()) runs.push_back(run);
  }
  boost::json::object out = {{"job", printable_name(report.job)},
                             {"to", printable_name(report.to)}};
  if (!report.note.empty() && runs.empty()) out["note"] = report.note;
  out["runs"] = std::move(runs);
  return json::text_of(out) + "\n";
}

}  // namespace c10dd::daemon
