// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/endpoint_page.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr double kMostSeconds = 1e9;  // longer times have no other effect than this one
constexpr const char* kWhat = "endpoint";
constexpr const char* kExample = R"({"name": "a", "run": "r1", "ttl": 600, "world_size": 8})";

Failure bad_member(std::string_view member, std::string_view needed,
                   const boost::json::value& value) {
  return failure(Code::invalid_argument, "endpoint: {} is {}; give {}, for example {}", member,
                 printable(json::text_of(value), 128), needed, kExample);
}

Result<void> check_members(const boost::json::object& members,
                           std::initializer_list<std::string_view> known) {
  for (const auto& member : members) {
    if (std::ranges::find(known, std::string_view(member.key())) != known.end()) continue;
    std::string list;
    for (const std::string_view one : known) (list += list.empty() ? "" : ", ").append(one);
    return failure(Code::invalid_argument, "endpoint: unknown member \"{}\"; use {}",
                   printable_name(member.key()), list);
  }
  return {};
}

Result<std::string> text_in(const boost::json::object& members, std::string_view member,
                            bool needed) {
  const boost::json::value* const value = members.if_contains(member);
  if (value == nullptr && !needed) return std::string();
  if (value == nullptr) {
    return failure(Code::invalid_argument, "endpoint: no {} given; send for example {}", member,
                   kExample);
  }
  if (!value->is_string()) return bad_member(member, "a string", *value);
  return std::string(value->as_string());
}

Result<Duration> ttl_in(const boost::json::object& members) {
  const boost::json::value* const value = members.if_contains("ttl");
  if (value == nullptr) return Duration::zero();
  if (!value->is_number()) return bad_member("ttl", "a number of seconds", *value);
  const double seconds = std::clamp(value->to_number<double>(), -kMostSeconds, kMostSeconds);
  const Duration ttl = std::chrono::milliseconds(std::llround(seconds * 1000));
  if (Result<void> good = core::check_endpoint_ttl(ttl); !good) return good.error();
  return ttl;
}

Result<std::uint32_t> world_size_in(const boost::json::object& members) {
  const boost::json::value* const value = members.if_contains("world_size");
  if (value == nullptr) return 0U;
  boost::system::error_code bad;
  const auto size = value->to_number<std::int64_t>(bad);
  if (bad) return bad_member("world_size", "an integer", *value);
  Result<void> good = core::check_endpoint_world_size(size == 0 ? -1 : size);
  if (size == 0) {
    good = failure(Code::invalid_argument,
                   "endpoint: world_size is 0; use 1 to {}, or leave it out", limits::kWorldSize);
  }
  if (!good) return good.error();
  return static_cast<std::uint32_t>(size);
}

boost::json::object object_of(const EndpointReport& report) {
  const core::Endpoint& endpoint = report.endpoint;
  boost::json::object out = {{"name", printable_name(endpoint.name)},
                             {"run", printable_name(endpoint.run)},
                             {"host", report.host},
                             {"port", endpoint.port},
                             {"ttl", seconds_of(endpoint.ttl)},
                             {"connections", report.connections},
                             {"listening", report.problem.empty()}};
  out["world_size"] = endpoint.world_size == 0 ? boost::json::value(nullptr)
                                               : boost::json::value(endpoint.world_size);
  if (!report.problem.empty()) out["problem"] = report.problem;
  return out;
}

}  // namespace

Result<boost::json::object> json_body(const HttpRequest& request, const std::string& what,
                                      const std::string& example) {
  const std::string_view type = request.content_type;
  if (type.substr(0, type.find(';')) != "application/json") {
    return failure(Code::invalid_argument,
                   "{}: content-type is not application/json; send for example {}", what, example);
  }
  boost::system::error_code bad;
  const boost::json::value body = boost::json::parse(request.body, bad);
  if (!bad && body.is_object()) return body.as_object();
  return failure(Code::invalid_argument, "{}: {}; send for example {}", what,
                 bad ? "body is not JSON: " + bad.message() : "body is not an object", example);
}

Result<LeaseEndpoint> lease_of(const HttpRequest& request) {
  const Result<boost::json::object> members = json_body(request, kWhat, kExample);
  if (!members) return members.error();
  const Result<void> known = check_members(*members, {"name", "run", "ttl", "world_size"});
  if (!known) return known.error();
  Result<std::string> name = text_in(*members, "name", true);
  if (!name) return name.error();
  Result<std::string> run = text_in(*members, "run", false);
  if (!run) return run.error();
  const Result<Duration> ttl = ttl_in(*members);
  if (!ttl) return ttl.error();
  const Result<std::uint32_t> world_size = world_size_in(*members);
  if (!world_size) return world_size.error();
  return LeaseEndpoint{std::move(*name), std::move(*run), *ttl, *world_size};
}

Result<std::string> released_name(const HttpRequest& request) {
  const Result<boost::json::object> members = json_body(request, kWhat, R"({"name": "a"})");
  if (!members) return members.error();
  if (const Result<void> known = check_members(*members, {"name"}); !known) return known.error();
  return text_in(*members, "name", true);
}

std::string json_of(const EndpointReport& report) {
  boost::json::object out = object_of(report);
  out["job"] = printable_name(report.endpoint.job);
  return json::text_of(out) + "\n";
}

std::string json_of(const std::string& job, const std::vector<EndpointReport>& reports) {
  boost::json::array list;
  for (const EndpointReport& report : reports) list.push_back(object_of(report));
  const boost::json::value body = {{"job", printable_name(job)}, {"endpoints", std::move(list)}};
  return json::text_of(body) + "\n";
}

}  // namespace c10dd::daemon
