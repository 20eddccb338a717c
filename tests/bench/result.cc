// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/result.h"

#include <sys/utsname.h>
#include <sys/vfs.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <thread>

#include "protocol/json_text.h"

namespace c10dd::bench {
namespace {

namespace json = boost::json;

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// The values of a sample: name in JSON, heading in the table, decimals there.
struct Column {
  const char* name;
  const char* heading;
  double Sample::*value;
  int decimals;
};
constexpr Column kColumns[] = {
    {"per_second", "", &Sample::per_second, 0}, {"cpu_us", "cpu us", &Sample::cpu, 2},
    {"p50_us", "p50 us", &Sample::p50, 1},      {"p99_us", "p99 us", &Sample::p99, 1},
    {"p99_9_us", "p99.9 us", &Sample::p999, 1}, {"max_us", "max us", &Sample::max, 1},
};
constexpr int kNameWidth = 36;
constexpr int kWidth = 12;

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

/// Of the directory where the servers keep their state.
std::string file_system() {
  struct statfs facts {};
  if (::statfs(std::filesystem::temp_directory_path().c_str(), &facts) != 0) return "unknown";
  switch (static_cast<std::uint32_t>(facts.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlayfs";
    default:
      std::ostringstream text;
      text << "0x" << std::hex << facts.f_type;
      return text.str();
  }
}

json::object machine() {
  utsname names{};
  ::uname(&names);
  return {{"cpu", cpu_model()},
          {"cores", std::thread::hardware_concurrency()},
          {"kernel", std::string(names.sysname) + " " + names.release},
          {"state_file_system", file_system()}};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::ostringstream text;
  text << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  return text.str();
}

json::object json_of(const Sample& sample) {
  json::object out;
  for (const Column& column : kColumns) out[column.name] = sample.*column.value;
  out["count"] = sample.count;
  out["seconds"] = sample.seconds;
  return out;
}

json::object json_of(const ScenarioResult& result) {
  json::object out{{"name", result.name}, {"counted", result.counted}};
  json::object parameters{{"seconds", result.round_seconds}};
  for (const auto& [name, value] : result.parameters) parameters[name] = value;
  out["parameters"] = parameters;
  json::array series;
  for (const Series& one : result.series) {
    json::array rounds;
    for (const Sample& round : one.rounds) rounds.push_back(json_of(round));
    series.push_back(json::object{{"name", one.name},
                                  {"how", one.how},
                                  {"rounds", rounds},
                                  {"median", json_of(one.median())}});
  }
  out["series"] = series;
  json::object ratios;
  for (const Series& to : result.series) {
    const Series* const of = compared_with(result, to);
    if (of == nullptr) continue;
    json::object values;
    for (const Column& column : kColumns) values[column.name] = ratio(*of, to, column.value);
    ratios[of->name + "/" + to.name] = values;
  }
  out["ratios"] = ratios;
  json::array facts;
  for (const Fact& fact : result.facts) {
    facts.push_back(json::object{{"name", fact.name},
                                 {"unit", fact.unit},
                                 {"rounds", json::value_from(fact.rounds)},
                                 {"median", median_of(fact.rounds)}});
  }
  out["facts"] = facts;
  if (!result.skipped.empty()) out["skipped"] = result.skipped;
  return out;
}

void print_facts(std::ostream& out, const ScenarioResult& result) {
  for (const Fact& fact : result.facts) {
    out << "  " << fact.name << ": " << std::fixed << std::setprecision(fact.decimals)
        << median_of(fact.rounds) << " " << fact.unit << "\n";
  }
}

}  // namespace

Sample sample_of(const Histogram& latency, double seconds, double cpu_seconds) {
  const auto us = [&](double share) { return latency.quantile(share) / 1000; };
  const auto count = static_cast<double>(std::max<std::uint64_t>(latency.count(), 1));
  return {count / seconds, cpu_seconds * 1e6 / count, us(0.5),         us(0.99),
          us(0.999),       latency.max() / 1000,      latency.count(), seconds};
}

Sample sample_of_one(std::chrono::nanoseconds took) {
  Histogram one;
  one.add(took.count());
  return sample_of(one, std::chrono::duration<double>(took).count());
}

Sample Series::median() const {
  const auto of = [&](auto Sample::*value) {
    std::vector<double> values;
    for (const Sample& round : rounds) values.push_back(static_cast<double>(round.*value));
    return median_of(std::move(values));
  };
  Sample out;
  for (const Column& column : kColumns) out.*column.value = of(column.value);
  out.count = static_cast<std::uint64_t>(of(&Sample::count));
  out.seconds = of(&Sample::seconds);
  return out;
}

const Series* compared_with(const ScenarioResult& result, const Series& to) {
  const std::string& name = to.bars.empty() ? result.bars : to.bars;
  const auto of = std::ranges::find(result.series, name, &Series::name);
  return of == result.series.end() || &*of == &to ? nullptr : &*of;
}

double ratio(const Series& of, const Series& to, double Sample::*value) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(of.rounds.size(), to.rounds.size()); ++i) {
    if (to.rounds[i].*value > 0) ratios.push_back(of.rounds[i].*value / (to.rounds[i].*value));
  }
  return median_of(std::move(ratios));
}

void print_table(std::ostream& out, const ScenarioResult& result) {
  if (!result.skipped.empty()) out << result.name << ": SKIPPED: " << result.skipped << "\n";
  if (result.series.empty()) return print_facts(out, result);
  const std::size_t rounds = result.series.front().rounds.size();
  out << result.name << ":";
  for (const auto& [name, value] : result.parameters) out << " " << name << "=" << value;
  out << "; medians of " << rounds << " rounds";
  if (result.round_seconds > 0) out << " of " << result.round_seconds << " s";
  out << "\n";
  out << std::left << std::setw(kNameWidth) << "" << std::right;
  for (const Column& column : kColumns) {
    out << std::setw(kWidth) << (*column.heading ? column.heading : result.counted + "/s");
  }
  out << "\n";
  const auto row = [&](const std::string& name, const auto& value_of, bool ratios) {
    out << std::left << std::setw(kNameWidth) << "  " + name << std::right;
    for (const Column& column : kColumns) {
      const double value = value_of(column);
      std::ostringstream text;
      text << std::fixed << std::setprecision(ratios ? 2 : column.decimals) << value;
      out << std::setw(kWidth) << (value > 0 ? text.str() + (ratios ? "x" : "") : "-");
    }
    out << "\n";
  };
  for (const Series& one : result.series) {
    row(
        one.name, [median = one.median()](const Column& c) { return median.*c.value; }, false);
  }
  for (const Series& to : result.series) {
    const Series* const of = compared_with(result, to);
    if (of == nullptr) continue;
    row(
        of->name + "/" + to.name, [&](const Column& c) { return ratio(*of, to, c.value); }, true);
  }
  print_facts(out, result);
  for (const Series& one : result.series) out << "  " << one.name << ": " << one.how << "\n";
  out << std::flush;
}

void print_json(std::ostream& out, const std::vector<ScenarioResult>& results) {
  json::array scenarios;
  for (const ScenarioResult& result : results) scenarios.push_back(json_of(result));
  const json::object all{{"program", "c10dd-bench"},
                         {"version", C10DD_VERSION},
                         {"time", now_text()},
                         {"machine", machine()},
                         {"scenarios", scenarios}};
  out << c10dd::json::text_of(all) << "\n" << std::flush;
}

}  // namespace c10dd::bench
