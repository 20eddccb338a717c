// SPDX-License-Identifier: Apache-2.0
// The routes of leased endpoints.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "daemon/http/routes.h"

namespace c10dd::daemon {
namespace {

EndpointReport endpoint_report() {
  return {{"a b", "x", 29600, "r", std::chrono::seconds(60), 8}, "127.0.0.1", 3, ""};
}

HttpRequest lease(const std::string& body) {
  HttpRequest request{"POST", "/v1/jobs/a%20b/endpoints", true};
  request.content_type = "application/json";
  request.body = body;
  return request;
}

TEST(HttpEndpoints, LeaseAnEndpointForThisMachineOnly) {
  const HttpRequest request = lease(R"({"name": "x", "run": "r", "ttl": 2.5, "world_size": 8})");
  EXPECT_EQ(job_of_endpoints(request).value(), "a b");
  const LeaseEndpoint asked = lease_of(request).value();
  EXPECT_EQ(asked.name, "x");
  EXPECT_EQ(asked.run, "r");
  EXPECT_EQ(asked.ttl, std::chrono::milliseconds(2'500));
  EXPECT_EQ(asked.world_size, 8U);
  const LeaseEndpoint least = lease_of(lease(R"({"name": "x"})")).value();
  EXPECT_EQ(least.run, "");
  EXPECT_EQ(least.ttl, Duration(0));
  EXPECT_EQ(least.world_size, 0U);
  ServerFacts its;
  EXPECT_EQ(need_of(request, its), Need::nothing);
  EXPECT_EQ(handle(request, its).status, 403);
  its.local = true;
  EXPECT_EQ(need_of(request, its), Need::lease);
  its.leased = endpoint_report();
  EXPECT_EQ(handle(request, its).body,
            "{\"name\":\"x\",\"run\":\"r\",\"host\":\"127.0.0.1\",\"port\":29600,\"ttl\":60,"
            "\"connections\":3,\"listening\":true,\"world_size\":8,\"job\":\"a b\"}\n");
  its.leased->problem = "the port is taken";
  EXPECT_EQ(handle(request, its).status, 503);
  its.leased = failure(Code::quota_exceeded, "no port");
  EXPECT_EQ(handle(request, its).status, 507);
  EXPECT_EQ(need_of(lease("{}"), its), Need::nothing);
  EXPECT_EQ(handle(lease("{}"), its).status, 400);
  EXPECT_EQ(need_of({"POST", "/v1/jobs/%zz/endpoints", true}, its), Need::nothing);
  EXPECT_EQ(handle({"POST", "/v1/jobs/%zz/endpoints", true}, its).status, 400);
}

TEST(HttpEndpoints, ListTheEndpointsOfAJob) {
  const HttpRequest request{"GET", "/v1/jobs/a%20b/endpoints", true};
  ServerFacts its;
  EXPECT_EQ(need_of(request, its), Need::endpoints);
  EndpointReport taken = endpoint_report();
  taken.endpoint.world_size = 0;
  taken.problem = "the port is taken";
  its.endpoints = std::vector<EndpointReport>{endpoint_report(), taken};
  const boost::json::value body = boost::json::parse(handle(request, its).body);
  EXPECT_EQ(body.at("job").as_string(), "a b");
  EXPECT_EQ(body.at("endpoints").at(0).at("listening").as_bool(), true);
  EXPECT_EQ(body.at("endpoints").at(1).at("listening").as_bool(), false);
  EXPECT_EQ(body.at("endpoints").at(1).at("problem").as_string(), "the port is taken");
  EXPECT_TRUE(body.at("endpoints").at(1).at("world_size").is_null());
  its.endpoints = failure(Code::unavailable, "the engine is not open");
  EXPECT_EQ(handle(request, its).status, 503);
  EXPECT_EQ(handle({"PUT", "/v1/jobs/a/endpoints", true}, its).allow, "GET, HEAD, POST, DELETE");
}

TEST(HttpEndpoints, ReleaseAnEndpointForThisMachineOnly) {
  const HttpRequest by_path{"DELETE", "/v1/jobs/a%20b/endpoints/x%2fy", true};
  EXPECT_EQ(job_of_endpoints(by_path).value(), "a b");
  EXPECT_EQ(endpoint_to_release(by_path).value(), "x/y");
  EXPECT_EQ(endpoint_to_release({"DELETE", "/v1/jobs/j/endpoints/endpoints", true}).value(),
            "endpoints");
  HttpRequest by_body = lease(R"({"name": "z"})");
  by_body.method = "DELETE";
  EXPECT_EQ(endpoint_to_release(by_body).value(), "z");
  ServerFacts its;
  EXPECT_EQ(need_of(by_path, its), Need::nothing);
  EXPECT_EQ(handle(by_path, its).status, 403);
  its.local = true;
  for (const HttpRequest& request : {by_path, by_body}) {
    EXPECT_EQ(need_of(request, its), Need::release);
  }
  EXPECT_EQ(handle(by_path, its).body, "{\"released\":\"x/y\"}\n");
  its.released = failure(Code::not_found, "unknown endpoint");
  EXPECT_EQ(handle(by_path, its).status, 404);
  by_body.body = R"({"name": "z", "run": ""})";
  EXPECT_EQ(need_of(by_body, its), Need::nothing);
  EXPECT_EQ(handle(by_body, its).status, 400);
}

}  // namespace
}  // namespace c10dd::daemon
