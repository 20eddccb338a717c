// SPDX-License-Identifier: Apache-2.0
// The rules of leased endpoints: what a request may ask for, when an endpoint expires, and that its
// rows bring it back.
#include "daemon/core/directory/endpoints.h"

#include <gtest/gtest.h>

#include "daemon/core/directory/directory.h"
#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTtl = seconds(10);

LeaseEndpoint request(const std::string& name, const std::string& run = "") {
  return {name, run, kTtl, 0};
}

class EndpointsTest : public testing::Test {
 protected:
  /// Leases or renews an endpoint. A new one gets this port.
  Endpoint lease(const std::string& job, const LeaseEndpoint& what, std::uint16_t port,
                 std::int64_t now) {
    Result<Endpoint> endpoint = endpoints_.check(job, what);
    EXPECT_TRUE(endpoint);
    if (!endpoint) return {};
    if (endpoint->port == 0) endpoint->port = port;
    endpoints_.put(*endpoint, at(now), rows_);
    return *endpoint;
  }

  std::string refusal(const std::string& job, const LeaseEndpoint& what) const {
    const Result<Endpoint> endpoint = endpoints_.check(job, what);
    return endpoint ? ""
                    : std::string(name_of(endpoint.error().code)) + ": " + endpoint.error().detail;
  }

  /// Names of the endpoints that have expired by then.
  std::vector<std::string> expired(std::int64_t now) {
    std::vector<std::string> names;
    while (const auto endpoint = endpoints_.expire(at(now), rows_)) names.push_back(endpoint->name);
    return names;
  }

  /// Another daemon takes the rows that were changed.
  void follow(std::int64_t now) {
    for (const RowView& row : rows_) EXPECT_TRUE(other_.follow(row, at(now)));
    rows_.clear();
  }
  /// Returns whether an endpoint was renewed, which the other daemon then follows.
  bool renew(std::int64_t now) {
    const bool renewed = endpoints_.renew_used(at(now), rows_);
    follow(now);
    return renewed;
  }

  Rows rows_;
  Endpoints endpoints_{3};
  Endpoints other_{3};
};

using Names = std::vector<std::string>;

TEST_F(EndpointsTest, KeepTheirPortWhenTheyAreRenewed) {
  EXPECT_EQ(lease("j", request("a", "r"), 1000, 0).port, 1000);
  EXPECT_EQ(lease("j", request("b", "r"), 1001, 0).port, 1001);
  const Endpoint renewed = lease("j", {"a", "r", seconds(20), 8}, 1002, 5);
  EXPECT_EQ(renewed.port, 1000);
  EXPECT_EQ(renewed, *endpoints_.find({"j", "a"}));
  EXPECT_EQ(renewed.ttl, seconds(20));
  EXPECT_TRUE(endpoints_.has_port(1000));
  EXPECT_FALSE(endpoints_.has_port(1002));
  EXPECT_EQ(endpoints_.size(), 2U);
}

TEST_F(EndpointsTest, OfTwoJobsMayHaveTheSameName) {
  lease("j", request("a"), 1000, 0);
  lease("k", request("a"), 1001, 0);
  ASSERT_EQ(endpoints_.of_job("j").size(), 1U);
  EXPECT_EQ(endpoints_.of_job("j")[0].port, 1000);
  EXPECT_EQ(endpoints_.of_job("k")[0].port, 1001);
  EXPECT_TRUE(endpoints_.of_job("").empty());
  EXPECT_EQ(endpoints_.all().size(), 2U);
}

TEST_F(EndpointsTest, ExpireSomeTimeAfterTheyWereRenewed) {
  lease("j", request("a"), 1000, 0);
  EXPECT_EQ(expired(9), Names{});
  lease("j", request("a"), 0, 9);
  EXPECT_EQ(endpoints_.next_deadline(), at(19));
  EXPECT_EQ(expired(18), Names{});
  EXPECT_EQ(expired(19), Names{"a"});
  EXPECT_FALSE(endpoints_.has_port(1000));
  EXPECT_EQ(endpoints_.find({"j", "a"}), nullptr);
  EXPECT_FALSE(endpoints_.next_deadline());
}

TEST_F(EndpointsTest, DoNotExpireWhileTheyHaveConnections) {
  lease("j", request("a"), 1000, 0);
  endpoints_.set_in_use({"j", "a"}, true, at(9));
  lease("j", request("a"), 0, 10);  // a renewal changes nothing about that
  EXPECT_EQ(expired(1'000), Names{});
  endpoints_.set_in_use({"j", "a"}, false, at(1'000));
  EXPECT_EQ(expired(1'009), Names{}) << "the ttl has started in full";
  EXPECT_EQ(expired(1'010), Names{"a"});
  endpoints_.set_in_use({"j", "a"}, true, at(1'011));
  endpoints_.set_in_use({"j", "a"}, false, at(1'012));
  EXPECT_FALSE(endpoints_.next_deadline()) << "an expired endpoint has no deadline";
}

TEST_F(EndpointsTest, WithConnectionsAreRenewedForTheOtherDaemons) {
  lease("j", request("a"), 1000, 0);
  follow(0);
  endpoints_.set_in_use({"j", "a"}, true, at(1));
  EXPECT_FALSE(renew(4)) << "the others count from 0";
  EXPECT_TRUE(renew(5)) << "after half the ttl";
  EXPECT_EQ(other_.next_deadline(), at(15));
  EXPECT_FALSE(renew(9));
  EXPECT_TRUE(renew(10)) << "after another half";
  EXPECT_EQ(other_.next_deadline(), at(20));
  EXPECT_EQ(expired(1'000), Names{}) << "not here";
  endpoints_.set_in_use({"j", "a"}, false, at(1'000));
  EXPECT_TRUE(renew(1'000)) << "the ttl starts again everywhere";
  EXPECT_FALSE(endpoints_.next_renewal());
  EXPECT_EQ(other_.next_deadline(), at(1'010));
  EXPECT_EQ(endpoints_.next_deadline(), at(1'010));
}

TEST_F(EndpointsTest, WhoseConnectionsComeAndGoAreRenewedOnceInHalfATtl) {
  lease("j", request("a"), 1000, 0);
  follow(0);
  int renewals = 0;
  for (int now = 0; now < 100; ++now) {
    for (const bool in_use : {true, false, true, false}) {
      endpoints_.set_in_use({"j", "a"}, in_use, at(now));
      renewals += renew(now) ? 1 : 0;
    }
    EXPECT_EQ(endpoints_.next_deadline(), at(now + 10)) << "its ttl starts with each end here";
    EXPECT_GT(other_.next_deadline(), at(now + 4)) << "nobody ends it sooner";
  }
  EXPECT_EQ(renewals, 19);
}

TEST_F(EndpointsTest, OfAnotherDaemonKeepTheirDeadlinesWhenOthersChange) {
  lease("j", request("a"), 1000, 0);
  follow(0);
  lease("j", request("b"), 1001, 5);
  follow(5);
  EXPECT_EQ(other_.next_deadline(), at(10)) << "that of a";
  lease("j", request("a"), 0, 8);
  follow(8);
  EXPECT_EQ(other_.next_deadline(), at(15)) << "that of b: a was renewed";
  endpoints_.release({"j", "b"}, rows_);
  follow(9);
  EXPECT_EQ(other_.next_deadline(), at(18));
  EXPECT_FALSE(other_.has_port(1001));
}

TEST_F(EndpointsTest, ThatMoveToThePortOfAnotherOneAreFollowedInAnyOrder) {
  lease("j", request("a", "r"), 1000, 0);
  lease("j", request("b"), 1001, 0);
  follow(0);
  Endpoints newer(3);
  Rows moved;
  newer.put({"j", "a", 1001, "s", kTtl}, at(1), moved);
  newer.put({"j", "b", 1000, "", kTtl}, at(1), moved);
  for (const RowView& row : moved) EXPECT_TRUE(*other_.follow(row, at(1)));
  for (const RowView& row : moved) EXPECT_FALSE(*other_.follow(row, at(1))) << "it is known";
  EXPECT_TRUE(other_.has_port(1000) && other_.has_port(1001));
  EXPECT_FALSE(other_.names_run("j", "r"));
  EXPECT_TRUE(other_.names_run("j", "s"));
  EXPECT_EQ(other_.all(), newer.all());
}

TEST_F(EndpointsTest, AreNotFollowedByDamagedRows) {
  lease("j", request("a"), 1000, 0);
  const Row good = *rows_.begin();
  const RowView damaged[] = {{Row::Kind::put, good.key, "x"},
                             {Row::Kind::put, "e", good.value},
                             {Row::Kind::erase, "exx", {}},
                             {Row::Kind::erase_prefix, good.key, {}}};
  for (const RowView& row : damaged) {
    EXPECT_EQ(other_.follow(row, at(0)).error().code, Code::malformed);
  }
  EXPECT_EQ(other_.size(), 0U);
}

TEST_F(EndpointsTest, ThatWereNotInUseKeepTheirDeadline) {
  lease("j", request("a"), 1000, 0);
  endpoints_.set_in_use({"j", "a"}, false, at(9));
  EXPECT_EQ(expired(10), Names{"a"});
}

TEST_F(EndpointsTest, AreReleasedOnce) {
  lease("j", request("a", "r"), 1000, 0);
  endpoints_.set_in_use({"j", "a"}, true, at(0));
  const auto released = endpoints_.release({"j", "a"}, rows_);
  ASSERT_TRUE(released);
  EXPECT_EQ(released->port, 1000);
  EXPECT_FALSE(endpoints_.release({"j", "a"}, rows_));
  EXPECT_FALSE(endpoints_.names_run("j", "r"));
  lease("j", request("a", "other"), 1000, 1);
  EXPECT_EQ(expired(11), Names{"a"}) << "it has no connection of the one before";
}

TEST_F(EndpointsTest, NameTheirRuns) {
  lease("j", request("a", "r"), 1000, 0);
  lease("j", request("b", "r"), 1001, 0);
  lease("j", request("c"), 1002, 0);
  EXPECT_TRUE(endpoints_.names_run("j", "r"));
  EXPECT_FALSE(endpoints_.names_run("j", ""));
  EXPECT_FALSE(endpoints_.names_run("k", "r"));
  endpoints_.release({"j", "a"}, rows_);
  EXPECT_TRUE(endpoints_.names_run("j", "r")) << "the other names it, too";
  endpoints_.release({"j", "b"}, rows_);
  EXPECT_FALSE(endpoints_.names_run("j", "r"));
}

TEST_F(EndpointsTest, TellTheWorldSizeOfARunIfTheyAgree) {
  lease("j", {"a", "r", kTtl, 8}, 1000, 0);
  lease("j", {"b", "", kTtl, 4}, 1001, 0);
  lease("j", {"c", "r", kTtl, 0}, 1002, 0);
  EXPECT_EQ(endpoints_.world_size("j", "r"), 8U);
  EXPECT_EQ(endpoints_.world_size("j", ""), 4U);
  EXPECT_EQ(endpoints_.world_size("j", "other"), std::nullopt);
  EXPECT_EQ(endpoints_.world_size("k", "r"), std::nullopt);
  lease("j", {"c", "r", kTtl, 9}, 0, 0);
  EXPECT_EQ(endpoints_.world_size("j", "r"), std::nullopt);
}

TEST_F(EndpointsTest, RefuseWhatCannotBeLeased) {
  EXPECT_EQ(refusal("j", request("")),
            "invalid_argument: the endpoint name is empty; use 1 to 255 bytes of UTF-8");
  EXPECT_NE(refusal("j", request(std::string(256, 'n'))).find("has 256 bytes"), std::string::npos);
  EXPECT_NE(refusal("j", request("a\n")).find("U+000A at byte 1;"), std::string::npos);
  EXPECT_NE(refusal("", request("a")).find("the job name is empty"), std::string::npos);
  EXPECT_NE(refusal("j ", request("a")).find("the job name \"j \" ends"), std::string::npos);
  EXPECT_NE(refusal("j", request("a", "\xFF")).find("the run name \"?\" is no"), std::string::npos);
  EXPECT_EQ(
      refusal("j", request("a", "plain-7")),
      "invalid_argument: an endpoint cannot use run \"plain-7\": only the daemon creates runs with "
      "such names; choose another name, or leave out the run");
  EXPECT_NE(refusal("j", request("a", "rdzv-x")), "");
  for (const Duration ttl :
       {Duration(-1), Duration(1), Duration(milliseconds(999)),
        Duration(limits::kEndpointTtlMax + Duration(1)), Duration::max(), Duration::min()}) {
    EXPECT_NE(refusal("j", {"a", "", ttl, 0}), "") << ttl.count();
  }
  EXPECT_EQ(refusal("j", {"a", "", milliseconds(500), 0}),
            "invalid_argument: the ttl of an endpoint cannot be 0.5 s; use 1 to 2592000 s");
  EXPECT_EQ(refusal("j", {"a", "", limits::kEndpointTtlMin, limits::kWorldSize}), "");
  EXPECT_EQ(refusal("j", {"a", "", limits::kEndpointTtlMax, 0}), "");
  EXPECT_EQ(refusal("j", {"a", "", kTtl, limits::kWorldSize + 1}),
            "invalid_argument: the world size of an endpoint cannot be 131073; use 1 to 131072, or "
            "leave it out");
  EXPECT_EQ(endpoints_.check("j", {"a", "", Duration(0), 0}).value().ttl, limits::kEndpointTtl);
}

TEST_F(EndpointsTest, RefuseAnotherRunUnderTheSameName) {
  lease("j", request("a", "r"), 1000, 0);
  EXPECT_EQ(
      refusal("j", request("a")),
      "invalid_argument: endpoint \"a\" of job \"j\" is leased for run \"r\", not for no run; "
      "release it first, or choose another name");
  EXPECT_EQ(refusal("j", request("b")), "");
}

TEST_F(EndpointsTest, AreLimited) {
  lease("j", request("a"), 1000, 0);
  lease("k", request("b"), 1001, 0);
  lease("k", request("c"), 1002, 0);
  EXPECT_EQ(refusal("j", request("d")),
            "quota_exceeded: too many endpoints: 4 with this one, limit 3; release some");
  EXPECT_EQ(refusal("j", request("a")), "") << "a renewal is none more";
  endpoints_.release({"k", "b"}, rows_);
  EXPECT_EQ(refusal("j", request("d")), "");
}

// ---- rows --------------------------------------------------------------------------------------

/// Restores what these rows leave behind.
void restore(Endpoints& endpoints, const Rows& rows) {
  std::map<Bytes, Bytes> left;
  for (const RowView& row : rows) {
    if (row.kind == Row::Kind::put) {
      left[Bytes(row.key)] = row.value;
    } else {
      EXPECT_EQ(left.erase(Bytes(row.key)), 1U);
    }
  }
  for (const auto& [key, value] : left) {
    const Row row{Row::Kind::put, key, value};
    EXPECT_TRUE(Endpoints::owns(row));
    EXPECT_TRUE(endpoints.restore(row));
  }
}

TEST_F(EndpointsTest, ComeBackWithTheirTtlInFull) {
  lease("j", {"a", "r", seconds(10), 8}, 1000, 0);
  lease("j", request("b"), 1001, 0);
  lease("ja", request("x"), 1002, 0);
  lease("j", {"a", "r", seconds(20), 9}, 0, 1);
  endpoints_.release({"j", "b"}, rows_);
  Endpoints again(3);
  restore(again, rows_);
  again.resume(at(100));
  EXPECT_EQ(again.all(), endpoints_.all());
  EXPECT_TRUE(again.has_port(1000));
  EXPECT_TRUE(again.names_run("j", "r"));
  EXPECT_EQ(again.world_size("j", "r"), 9U);
  EXPECT_EQ(again.next_deadline(), at(110));
  Rows rows;
  EXPECT_EQ(again.expire(at(110), rows)->name, "x");
  EXPECT_FALSE(again.expire(at(119), rows));
  EXPECT_EQ(again.expire(at(120), rows)->name, "a");
}

TEST_F(EndpointsTest, RefuseDamagedRows) {
  lease("j", request("a", "r"), 1000, 0);
  const Row good = rows_[0];
  Row cut = good;
  cut.value.pop_back();
  cut.value.resize(3);
  Row no_port = good;
  no_port.value[0] = no_port.value[1] = '\0';
  Row no_name = good;
  no_name.key.pop_back();
  Row bad_key = good;
  bad_key.key.resize(5);
  for (const Row& bad : {cut, no_port, no_name, bad_key}) {
    Endpoints fresh(3);
    const Result<void> done = fresh.restore(bad);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::malformed);
  }
  Endpoints twice(3);
  EXPECT_TRUE(twice.restore(good));
  EXPECT_FALSE(twice.restore(good)) << "two endpoints with one port";
}

// ---- the directory -----------------------------------------------------------------------------

struct Leased {
  Directory directory;
  Effects effects = {};

  explicit Leased(const Directory::Limits& limits) : directory(0, limits) {
    static_cast<void>(directory.resume(1, false, at(0)));
  }
  Result<void> lease(const std::string& name, const std::string& run, std::uint16_t port,
                     std::int64_t now) {
    Result<Endpoint> endpoint = directory.endpoints().check("j", request(name, run));
    if (endpoint->port == 0) endpoint->port = port;
    effects = {};
    return directory.lease_endpoint(*endpoint, at(now), effects);
  }
};

Directory::Limits some_limits() {
  Directory::Limits limits;
  limits.run_grace = seconds(30);
  limits.jobs = 2;
  return limits;
}

TEST(DirectoryWithEndpoints, MakesTheRunInTheSameChange) {
  Leased world(some_limits());
  const Revision before = world.directory.revision();
  ASSERT_TRUE(world.lease("a", "r", 1000, 0));
  EXPECT_EQ(world.directory.find("j", "r"), 1U);
  EXPECT_EQ(world.effects.rows.size(), 3U) << "the run, the next number and the endpoint";
  EXPECT_EQ(world.effects.revision, before + 1);
  EXPECT_EQ(world.directory.revision(), before + 1);
  ASSERT_TRUE(world.lease("a", "r", 0, 1));
  EXPECT_EQ(world.effects.rows.size(), 1U);
  EXPECT_EQ(world.directory.revision(), before + 2);
  ASSERT_TRUE(world.lease("b", "", 1001, 1));
  EXPECT_EQ(world.effects.rows.size(), 1U) << "PlainRuns makes its runs";
  ASSERT_TRUE(world.lease("c", "s", 1002, 1));
  const Result<void> full = world.lease("d", "t", 1003, 1);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().detail,
            "too many jobs: 3 with this one, limit 2; "
            "c10ddctl jobs lists them, and c10ddctl rm NAME removes one that nobody uses");
  EXPECT_EQ(world.directory.endpoints().find({"j", "d"}), nullptr);
}

TEST(DirectoryWithEndpoints, KeepsTheRunOfAnEndpoint) {
  Leased world(some_limits());
  ASSERT_TRUE(world.lease("a", "r", 1000, 0));
  EXPECT_TRUE(world.directory.tick(at(30)).entries.empty());
  EXPECT_FALSE(world.directory.next_deadline()) << "nothing is due while it is named";
  Effects out;
  EXPECT_TRUE(world.directory.release_endpoint({"j", "a"}, at(100), out));
  EXPECT_EQ(out.rows.size(), 1U);
  EXPECT_EQ(out.revision, world.directory.revision());
  EXPECT_EQ(world.directory.next_deadline(), at(130)) << "its grace begins in full";
  ASSERT_EQ(world.directory.tick(at(130)).entries.size(), 1U);
  EXPECT_FALSE(world.directory.find("j", "r"));
}

TEST(DirectoryWithEndpoints, StartsTheGraceInFullWhenAnEndpointExpires) {
  Leased world(some_limits());
  ASSERT_TRUE(world.lease("a", "r", 1000, 0));
  Effects out;
  EXPECT_EQ(world.directory.expire_endpoints(at(10), false, out).size(), 1U);
  EXPECT_EQ(world.directory.next_deadline(), at(40));
  Effects none;
  EXPECT_TRUE(world.directory.expire_endpoints(at(10), false, none).empty());
  EXPECT_EQ(none.revision, out.revision);
}

TEST(DirectoryWithEndpoints, DoesNotRetireARunInUseWhenItsEndpointGoes) {
  Leased world(some_limits());
  ASSERT_TRUE(world.lease("a", "r", 1000, 0));
  Effects out;
  ASSERT_TRUE(world.directory.open("j", "r", out));  // a session
  world.directory.release_endpoint({"j", "a"}, at(1), out);
  EXPECT_FALSE(world.directory.next_deadline());
  ASSERT_TRUE(world.lease("a", "r", 1000, 2));
  world.directory.mark_idle(1, false, at(3));
  EXPECT_TRUE(world.directory.tick(at(33)).entries.empty());
  world.directory.mark_in_use(1);
  world.directory.release_endpoint({"j", "a"}, at(50), out);
  EXPECT_FALSE(world.directory.next_deadline());
}

TEST(DirectoryWithEndpoints, LooksAtARestoredRunWhenItsEndpointHasGone) {
  Leased world(some_limits());
  ASSERT_TRUE(world.lease("a", "r", 1000, 0));
  Directory again(world.effects.revision, some_limits());
  for (const RowView& row : world.effects.rows) ASSERT_TRUE(again.restore(row));
  again.resume(1, false, at(0));
  EXPECT_TRUE(again.tick(at(30)).not_reopened.empty());
  Effects out;
  ASSERT_TRUE(again.release_endpoint({"j", "a"}, at(31), out));
  EXPECT_EQ(again.tick(at(61)).not_reopened.size(), 1U) << "its rows may have sessions";
}

TEST(DirectoryWithEndpoints, RemovesTheEndpointsOfAJob) {
  Leased world(some_limits());
  ASSERT_TRUE(world.lease("a", "r", 1000, 0));
  ASSERT_TRUE(world.lease("b", "", 1001, 0));
  const Revision before = world.directory.revision();
  std::vector<Endpoint> removed;
  const Directory::Retired retired = world.directory.remove("j", {1}, removed);
  EXPECT_EQ(removed.size(), 2U);
  EXPECT_EQ(retired.entries.size(), 1U);
  EXPECT_EQ(retired.effects.rows.size(), 3U);
  EXPECT_EQ(retired.effects.revision, before + 1);
  EXPECT_EQ(world.directory.revision(), before + 1);
  EXPECT_EQ(world.directory.endpoints().size(), 0U);
}

}  // namespace
}  // namespace c10dd::core
