// SPDX-License-Identifier: Apache-2.0
// The routes of leased endpoints.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "tests/unit/daemon/ask_route.h"

namespace c10dd::daemon {
namespace {

using Asked = std::vector<std::string>;

EndpointReport endpoint_report() {
  return {{"a b", "x", 29600, "r", std::chrono::seconds(60), 8}, "127.0.0.1", 3, ""};
}

HttpRequest lease(const std::string& body) {
  HttpRequest request{"POST", "/v1/jobs/a%20b/endpoints", true};
  request.content_type = "application/json";
  request.body = body;
  return request;
}

class HttpEndpoints : public testing::Test, protected AskedDaemon {};

TEST_F(HttpEndpoints, LeaseAnEndpointForThisMachineOnly) {
  const HttpRequest request = lease(R"({"name": "x", "run": "r", "ttl": 2.5, "world_size": 8})");
  const LeaseEndpoint wanted = lease_of(request).value();
  EXPECT_EQ(wanted.name, "x");
  EXPECT_EQ(wanted.run, "r");
  EXPECT_EQ(wanted.ttl, std::chrono::milliseconds(2'500));
  EXPECT_EQ(wanted.world_size, 8U);
  const LeaseEndpoint least = lease_of(lease(R"({"name": "x"})")).value();
  EXPECT_EQ(least.run, "");
  EXPECT_EQ(least.ttl, Duration(0));
  EXPECT_EQ(least.world_size, 0U);
  EXPECT_EQ(ask(request).status, 403);
  EXPECT_EQ(asked(), Asked{});
  local = true;
  operations.endpoints = {endpoint_report()};
  EXPECT_EQ(ask(request).body,
            "{\"name\":\"x\",\"run\":\"r\",\"host\":\"127.0.0.1\",\"port\":29600,\"ttl\":60,"
            "\"connections\":3,\"listening\":true,\"world_size\":8,\"job\":\"a b\"}\n");
  EXPECT_EQ(asked(), Asked{"lease x of a b"});
  operations.endpoints.front().problem = "the port is taken";
  EXPECT_EQ(ask(request).status, 503);
  operations.done = failure(Code::quota_exceeded, "no port");
  EXPECT_EQ(ask(request).status, 507);
  EXPECT_EQ(ask(lease("{}")).status, 400);
  EXPECT_EQ(asked(), Asked{});
  HttpRequest cut = request;
  cut.target = "/v1/jobs/%zz/endpoints";
  EXPECT_EQ(ask(cut).status, 400);
  EXPECT_EQ(asked(), Asked{});
}

TEST_F(HttpEndpoints, ListTheEndpointsOfAJob) {
  EndpointReport taken = endpoint_report();
  taken.endpoint.world_size = 0;
  taken.problem = "the port is taken";
  operations.endpoints = {endpoint_report(), taken};
  const boost::json::value body = boost::json::parse(ask("GET", "/v1/jobs/a%20b/endpoints").body);
  EXPECT_EQ(asked(), Asked{"endpoints of a b"});
  EXPECT_EQ(body.at("job").as_string(), "a b");
  EXPECT_EQ(body.at("endpoints").at(0).at("listening").as_bool(), true);
  EXPECT_EQ(body.at("endpoints").at(1).at("listening").as_bool(), false);
  EXPECT_EQ(body.at("endpoints").at(1).at("problem").as_string(), "the port is taken");
  EXPECT_TRUE(body.at("endpoints").at(1).at("world_size").is_null());
  operations.listed = failure(Code::unavailable, "the engine is not open");
  EXPECT_EQ(status("GET", "/v1/jobs/a%20b/endpoints"), 503);
  EXPECT_EQ(ask("PUT", "/v1/jobs/a/endpoints").allow, "GET, HEAD, POST, DELETE");
}

TEST_F(HttpEndpoints, ReleaseAnEndpointForThisMachineOnly) {
  const HttpRequest by_path{"DELETE", "/v1/jobs/a%20b/endpoints/x%2fy", true};
  HttpRequest by_body = lease(R"({"name": "z"})");
  by_body.method = "DELETE";
  for (const HttpRequest& request : {by_path, by_body}) {
    EXPECT_EQ(ask(request).status, 403);
    EXPECT_EQ(asked(), Asked{});
  }
  local = true;
  EXPECT_EQ(ask(by_path).body, "{\"released\":\"x/y\"}\n");
  EXPECT_EQ(asked(), Asked{"release x/y of a b"});
  EXPECT_EQ(ask(by_body).body, "{\"released\":\"z\"}\n");
  EXPECT_EQ(asked(), Asked{"release z of a b"});
  ask("DELETE", "/v1/jobs/j/endpoints/endpoints");
  EXPECT_EQ(asked(), Asked{"release endpoints of j"});
  operations.done = failure(Code::not_found, "unknown endpoint");
  EXPECT_EQ(ask(by_path).status, 404);
  by_body.body = R"({"name": "z", "run": ""})";
  EXPECT_EQ(ask(by_body).status, 400);
  EXPECT_EQ(asked(), Asked{});
}

}  // namespace
}  // namespace c10dd::daemon
