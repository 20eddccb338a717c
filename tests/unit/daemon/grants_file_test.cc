// SPDX-License-Identifier: Apache-2.0
// The file of --grants: what it says, and a sentence with the line for what is wrong in it.
#include "daemon/config/grants_file.h"

#include <gtest/gtest.h>

namespace c10dd::daemon {
namespace {

constexpr const char* kGood = R"(revoked = ["bob", "carol"]

[[issuer]]
name = "k8s"
issuer = "https://kubernetes.default.svc"
audience = "c10dd"
jwks = "/etc/c10dd/k8s.json"

[[grant]]
who = "k8s:system:serviceaccount:*:trainer"
role = "trainer"
jobs = ["{1}.*"]

[[grant]]
who = "cert:spiffe://site/ops"
role = "admin"
jobs = ["*"]
)";

std::string why_refused(const std::string& text) {
  const auto found = grants_in(text, "g.toml");
  return found ? "" : found.error().detail;
}

/// The good file with one text in place of another.
std::string with(const std::string& before, const std::string& after) {
  std::string text = kGood;
  const std::size_t at = text.find(before);
  EXPECT_NE(at, text.npos) << before;
  return text.replace(at, before.size(), after);
}

TEST(GrantsFileTest, SaysWhoMayWhat) {
  const auto found = grants_in(kGood, "g.toml");
  ASSERT_TRUE(found) << found.error().detail;
  ASSERT_EQ(found->issuers.size(), 1U);
  EXPECT_EQ(found->issuers[0].name, "k8s");
  EXPECT_EQ(found->issuers[0].issuer, "https://kubernetes.default.svc");
  EXPECT_EQ(found->issuers[0].audience, "c10dd");
  EXPECT_EQ(found->issuers[0].jwks, "/etc/c10dd/k8s.json");
  EXPECT_EQ(found->revoked, (std::set<std::string>{"bob", "carol"}));
  EXPECT_TRUE(found->asks_for_certificates);
  const auto roles = found->grants.roles_of("k8s:system:serviceaccount:vision:trainer");
  EXPECT_EQ(roles.in("vision.1"), core::Role::trainer);
  EXPECT_EQ(found->grants.roles_of("cert:spiffe://site/ops").everywhere(), core::Role::admin);
  EXPECT_TRUE(grants_in("", "g.toml")) << "nobody has a grant";
  EXPECT_FALSE(grants_in("", "g.toml")->asks_for_certificates);
}

TEST(GrantsFileTest, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(why_refused(with("role = \"trainer\"", "roles = \"trainer\"")),
            "grants g.toml:11: unknown key \"roles\"; did you mean role?");
  EXPECT_EQ(why_refused(with("role = \"trainer\"", "role = \"root\"")),
            "grants g.toml:9: its role must be viewer, trainer or admin");
  EXPECT_EQ(why_refused(with("role = \"trainer\"", "role = 7")),
            "grants g.toml:11: role must be a string");
  EXPECT_EQ(why_refused(with("role = \"trainer\"\n", "")), "grants g.toml:9: role is missing");
  EXPECT_EQ(why_refused(with("jobs = [\"{1}.*\"]", "jobs = \"all\"")),
            "grants g.toml:12: jobs must be a list of strings");
  EXPECT_EQ(why_refused(with("jobs = [\"{1}.*\"]", "jobs = [\"a\", 1]")),
            "grants g.toml:12: jobs must be a list of strings");
  EXPECT_EQ(why_refused(with("jobs = [\"{1}.*\"]", "jobs = []")),
            "grants g.toml:9: jobs has 0 patterns, but needs 1 to 256");
  EXPECT_EQ(why_refused(with("jobs = [\"{1}.*\"]", "jobs = [\"*.a\"]")),
            "grants g.toml:9: \"*.a\" has a * that is not at the end; write for example llm-*");
  EXPECT_EQ(
      why_refused(with("jobs = [\"{1}.*\"]", "jobs = [\"{1}.{2}\"]")),
      "grants g.toml:9: unknown placeholder {2}: only {1} is replaced, by what the first * in "
      "who matches");
  for (const char* jobs : {"{x}.{", "{1}", "{1}x", "x{1}x*"}) {
    EXPECT_EQ(why_refused(with("{1}.*", jobs)), "") << jobs;
  }
  EXPECT_EQ(why_refused("grant = 1"),
            "grants g.toml:1: grant must be tables; begin each with [[grant]]");
  EXPECT_EQ(why_refused(with("k8s:system", "k9s:system")),
            "grants g.toml:9: who must begin with the name of an [[issuer]] and a colon, or with "
            "cert:");
  EXPECT_EQ(
      why_refused(with("name = \"k8s\"", "name = \"cert\"")),
      "grants g.toml:3: the name of an issuer must not be cert, and must not contain a colon");
  EXPECT_EQ(why_refused(with("audience = \"c10dd\"\n", "")),
            "grants g.toml:3: audience is missing");
  EXPECT_EQ(why_refused(with("[[issuer]]", "[issuer]")),
            "grants g.toml:3: issuer must be tables; begin each with [[issuer]]");
  EXPECT_EQ(why_refused(with("revoked = [", "revoke = [")),
            "grants g.toml:1: unknown key \"revoke\"; did you mean revoked?");
  EXPECT_EQ(why_refused(std::string(kGood) + R"(
[[issuer]]
name = "k8s"
issuer = "x"
audience = "x"
jwks = "x")"),
            "grants g.toml:19: a second issuer \"k8s\"");
  EXPECT_EQ(why_refused("x =").substr(0, 43), "grants g.toml:1: this is not valid TOML: Er");
  EXPECT_EQ(why_refused("revoked = " + std::string(100, '[') + std::string(100, ']')),
            "grants g.toml:1: values are nested deeper than the limit of 32 levels; use [[issuer]] "
            "and [[grant]]");
}

}  // namespace
}  // namespace c10dd::daemon
