// SPDX-License-Identifier: Apache-2.0
// Who may do what in which jobs: each pattern gives what it says, and nothing else.
#include "daemon/core/sessions/grants.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

Grants grants(std::vector<Grant> all) {
  auto made = Grants::of(std::move(all));
  EXPECT_TRUE(made) << made.error().detail;
  return made ? *made : Grants();
}

std::string why_refused(Grant grant) {
  const auto made = Grants::of({{"good", Role::viewer, {"*"}}, std::move(grant)});
  return made ? "" : made.error().detail;
}

TEST(GrantsTest, ARoleMayDoAllThatALowerOneMay) {
  EXPECT_LT(Role::none, Role::viewer);
  EXPECT_LT(Role::viewer, Role::trainer);
  EXPECT_LT(Role::trainer, Role::admin);
  EXPECT_EQ(access_of(Role::viewer), Access::observe);
  EXPECT_EQ(access_of(Role::trainer), Access::join);
  EXPECT_EQ(access_of(Role::admin), Access::admin);
  for (const Role role : {Role::viewer, Role::trainer, Role::admin}) {
    EXPECT_EQ(role_named(name_of(role)), role);
  }
  EXPECT_EQ(role_named("root"), Role::none);
  EXPECT_EQ(role_named("none"), Role::none);
}

TEST(GrantsTest, APatternIsOneNameOrABegin) {
  const auto fits = [](std::string_view pattern, std::string_view job) {
    return JobPattern::of(pattern)->fits(job);
  };
  EXPECT_TRUE(fits("llm", "llm"));
  EXPECT_FALSE(fits("llm", "llm-1"));
  EXPECT_FALSE(fits("llm", "ll"));
  EXPECT_TRUE(fits("llm-*", "llm-1"));
  EXPECT_TRUE(fits("llm-*", "llm-"));
  EXPECT_FALSE(fits("llm-*", "my-llm-1")) << "it matches no inside";
  EXPECT_FALSE(fits("llm-*", "llm"));
  EXPECT_TRUE(fits("*", "any"));
  EXPECT_TRUE(JobPattern::of("*")->is_everything());
  EXPECT_FALSE(JobPattern::of("a*")->is_everything());
  for (const std::string& bad : {std::string(), std::string("*a"), std::string("a*b"),
                                 std::string("**"), std::string(256, 'a')}) {
    EXPECT_FALSE(JobPattern::of(bad)) << bad;
  }
}

TEST(GrantsTest, NobodyMayAnythingWithoutAGrant) {
  const JobRoles none = Grants().roles_of("alice");
  EXPECT_EQ(none.in("job"), Role::none);
  EXPECT_EQ(none.everywhere(), Role::none);
  EXPECT_EQ(none.anywhere(), Role::none);
}

TEST(GrantsTest, TheHighestOfSeveralGrantsCounts) {
  const Grants all = grants({{"alice", Role::viewer, {"*"}},
                             {"alice", Role::trainer, {"llm-*", "test"}},
                             {"a*", Role::admin, {"test"}},
                             {"bob", Role::admin, {"*"}}});
  const JobRoles alice = all.roles_of("alice");
  EXPECT_EQ(alice.in("other"), Role::viewer);
  EXPECT_EQ(alice.in("llm-1"), Role::trainer);
  EXPECT_EQ(alice.in("test"), Role::admin);
  EXPECT_EQ(alice.everywhere(), Role::viewer);
  EXPECT_EQ(alice.anywhere(), Role::admin);
  EXPECT_EQ(all.roles_of("alic").in("test"), Role::admin);
  EXPECT_EQ(all.roles_of("alic").in("llm-1"), Role::none);
  EXPECT_EQ(all.roles_of("Alice").anywhere(), Role::none);
}

TEST(GrantsTest, AStarEndsBeforeTheCharacterThatFollowsIt) {
  const Grants all =
      grants({{"k8s:system:serviceaccount:*:trainer", Role::trainer, {"{1}.*", "shared"}}});
  const JobRoles vision = all.roles_of("k8s:system:serviceaccount:vision:trainer");
  EXPECT_EQ(vision.in("vision.train"), Role::trainer);
  EXPECT_EQ(vision.in("shared"), Role::trainer);
  EXPECT_EQ(vision.in("vision"), Role::none);
  EXPECT_EQ(vision.in("visions.train"), Role::none);
  EXPECT_EQ(vision.in("{1}.train"), Role::none);
  for (const char* const other :
       {"k8s:system:serviceaccount::trainer", "k8s:system:serviceaccount:vision:trainers",
        "k8s:system:serviceaccount:a:b:trainer", "k8s:system:serviceaccount:vision:", "x"}) {
    EXPECT_EQ(all.roles_of(other).anywhere(), Role::none) << other;
  }
}

TEST(GrantsTest, WhatAStarMatchesNamesNobodyElsesJobs) {
  const Grants all = grants({{"oidc:*", Role::trainer, {"{1}.*"}}});
  EXPECT_EQ(all.roles_of("oidc:a").in("a.b.job"), Role::trainer);
  EXPECT_EQ(all.roles_of("oidc:a.b").in("a.b.job"), Role::none)
      << "it would be among the jobs of a, and those of a among its own";
  EXPECT_EQ(all.roles_of("oidc:*").anywhere(), Role::none) << "a star in a name is no pattern";
  EXPECT_EQ(all.roles_of("oidc:").anywhere(), Role::none);
  EXPECT_EQ(all.roles_of("oidc:" + std::string(300, 'a')).anywhere(), Role::none);
  const Grants exact = grants({{"cert:spiffe://*/job/*", Role::trainer, {"{1}"}}});
  EXPECT_EQ(exact.roles_of("cert:spiffe://site/job/a/b").in("site"), Role::trainer);
  EXPECT_EQ(exact.roles_of("cert:spiffe://site/x/job/a").anywhere(), Role::none);
}

TEST(GrantsTest, AWrongGrantIsNamed) {
  EXPECT_EQ(why_refused({"bob", Role::viewer, {"*"}}), "");
  EXPECT_EQ(why_refused({"", Role::viewer, {"*"}}),
            "grant 2 (who = \"\"): who has 0 bytes, but needs 1 to 255");
  EXPECT_EQ(why_refused({"b**", Role::viewer, {"*"}}),
            "grant 2 (who = \"b**\"): who has ** in it; write one *");
  EXPECT_EQ(why_refused({"bob", Role::none, {"*"}}),
            "grant 2 (who = \"bob\"): its role must be viewer, trainer or admin");
  EXPECT_EQ(why_refused({"bob", Role::viewer, {}}),
            "grant 2 (who = \"bob\"): jobs has 0 patterns, but needs 1 to 256");
  EXPECT_EQ(why_refused({"bob", Role::viewer, {"a*b"}}),
            "grant 2 (who = \"bob\"): \"a*b\" has a * that is not at the end; write for example "
            "llm-*");
  EXPECT_EQ(why_refused({"bob", Role::viewer, {"{1}.*"}}),
            "grant 2 (who = \"bob\"): {1} stands for the first * in who, which has none");
  EXPECT_EQ(why_refused({"b*", Role::viewer, {"{1}*"}}),
            "grant 2 (who = \"b*\"): {1}* would match the jobs of other principals, too; write for "
            "example {1}.*");
  EXPECT_EQ(why_refused({"b*", Role::viewer, {"{1}.{1}"}}),
            "grant 2 (who = \"b*\"): {1} may stand once in a pattern");
}

}  // namespace
}  // namespace c10dd::core
