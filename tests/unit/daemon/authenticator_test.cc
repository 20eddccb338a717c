// SPDX-License-Identifier: Apache-2.0
// Who has sent a hello: what is remembered of a token counts until it expires or the files change.
#include "daemon/config/authenticator.h"

#include <thread>

#include "protocol/session_ops.h"
#include "tests/unit/daemon/client_certificate.h"
#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::daemon {
namespace {

using namespace std::chrono_literals;
using tls::kNow;

class AuthenticatorTest : public testing::Test {
 protected:
  std::shared_ptr<const AccessRules> access(const std::string& grants = "") const {
    AccessTexts texts;
    texts.chain = {"tls.crt", daemon_.chain[0].pem()};
    texts.key = {"tls.key", daemon_.key.private_pem()};
    texts.ca = {"ca.crt", ca_.certificate.pem()};
    if (!grants.empty()) texts.grants = *grants_in(grants, "grants.toml");
    const auto made = AccessRules::of(texts, kNow);
    EXPECT_TRUE(made) << made.error().detail;
    return *made;
  }
  std::string token(const std::string& name, const std::string& role = "trainer") const {
    return tls::signed_token({name, role, {"llm-*"}, kNow, kNow + 1h, ""}, ca_.key);
  }
  static Hello hello(const std::string& token, const std::string& job = "llm-1") {
    Hello hello;
    hello.credential = token;
    hello.job = job;
    return hello;
  }
  Result<core::Caller> caller(const Hello& hello) const {
    return authenticator_.caller(hello.credential, hello.job, std::nullopt);
  }
  std::string why_refused(const Hello& hello) const {
    const auto found = caller(hello);
    return found ? "" : found.error().detail;
  }

  const tls::Ca ca_;
  const tls::Identity daemon_ = ca_.daemon();
  tls::WallTime now_ = kNow;
  Authenticator authenticator_{access(), [this] { return now_; }};
};

TEST_F(AuthenticatorTest, SaysWhoMayWhatInTheJobOfAHello) {
  const auto alice = caller(hello(token("alice")));
  ASSERT_TRUE(alice);
  EXPECT_EQ(alice->principal, "alice");
  EXPECT_EQ(alice->access, c10dd::Access::join);
  EXPECT_EQ(caller(hello(token("eve", "viewer")))->access, c10dd::Access::observe);
  EXPECT_EQ(why_refused(hello(token("alice"), "vision")),
            "\"alice\" may do nothing in job \"vision\"; use a job of its token or grants, or ask "
            "for a further one");
  EXPECT_EQ(caller(hello(token("alice"), "vision")).error().code, Code::permission_denied);
  EXPECT_EQ(why_refused(hello("")),
            "this daemon asks who its clients are, and this one sends no token; set "
            "C10DD_TOKEN_FILE to a token of this cluster");
}

TEST_F(AuthenticatorTest, ATokenDecidesBesideACertificateThatIsNotGood) {
  const std::string refused = "the client's certificate has expired; renew it";
  const auto with = [&](const std::string& shown) {
    const auto found = authenticator_.caller(shown, "llm-1", std::nullopt, refused);
    return found ? found->principal : found.error().detail;
  };
  EXPECT_EQ(with(token("alice")), "alice");
  EXPECT_EQ(with(""), refused + ", or set C10DD_TOKEN_FILE to a token of this cluster");
  EXPECT_EQ(with("x"), "the token is not a JSON Web Token; ask for a new one (c10ddctl ca token)");
}

TEST_F(AuthenticatorTest, WhatIsRememberedExpires) {
  const std::string one = token("alice");
  EXPECT_EQ(why_refused(hello(one)), "");
  now_ += 59min;
  EXPECT_EQ(why_refused(hello(one)), "");
  now_ += 3min;
  EXPECT_EQ(why_refused(hello(one)),
            "the token has expired; ask for a new one (c10ddctl ca token)");
}

TEST_F(AuthenticatorTest, ACertificateExpiresAsATokenDoes) {
  const tls::Certificate shown = client_certificate();
  authenticator_.replace(
      access("[[grant]]\nwho = \"cert:spiffe://site/ops\"\nrole = \"trainer\"\n"
             "jobs = [\"llm-*\"]\n"));
  now_ = shown.ends() - 10s;
  const auto found = authenticator_.caller("", "llm-1", shown);
  ASSERT_TRUE(found) << found.error().detail;
  EXPECT_EQ(found->valid_for, 10s) << "then it is asked again";
  now_ = shown.ends() + 1s;
  EXPECT_EQ(authenticator_.caller("", "llm-1", shown).error().code, Code::unauthenticated);
  EXPECT_EQ(authenticator_.principal("", shown).error().code, Code::unauthenticated);
}

TEST_F(AuthenticatorTest, WhatIsRememberedEndsWithTheFilesThatSaidIt) {
  const std::string one = token("alice");
  EXPECT_EQ(why_refused(hello(one)), "");
  authenticator_.replace(access("revoked = [\"alice\"]\n"));
  EXPECT_EQ(why_refused(hello(one)), "the token is revoked; ask for a new one (c10ddctl ca token)");
  authenticator_.replace(access());
  EXPECT_EQ(why_refused(hello(one)), "");
}

TEST_F(AuthenticatorTest, ManyTokensAndThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      for (int i = 0; i < 100; ++i) {
        const Hello asks = hello(token("user-" + std::to_string(n) + "-" + std::to_string(i % 10)));
        if (!authenticator_.caller(asks.credential, asks.job, std::nullopt)) ++refused;
      }
    });
  }
  for (int i = 0; i < 20; ++i) authenticator_.replace(access());
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace c10dd::daemon
