// SPDX-License-Identifier: Apache-2.0
// Who somebody is and what he may do, from the files of --tls and --grants.
#include "daemon/config/access_rules.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "protocol/base64.h"
#include "protocol/limits.h"
#include "tests/unit/daemon/client_certificate.h"
#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::daemon {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using core::Role;
using tls::kNow;

// Keys of an issuer: the private one, and the set that it publishes.
constexpr const char* kSiteKey =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQggz1PMtxIHEneoE6N\n"
    "2GhsVQFjZtXQKTpVDebf6OP+Hu2hRANCAAQPeCqWZXMYL0hltBD7oJAg6OjZUolU\n"
    "5e4h22q8Bn6w5SFsLFEXcnbObGXclmuskusNKlCrjNM6QraAJDEDWTAs\n"
    "-----END PRIVATE KEY-----\n";
constexpr const char* kSiteSet = R"({"keys":[{"kty":"EC","crv":"P-256","kid":"site","use":"sig",)"
                                 R"("x":"D3gqlmVzGC9IZbQQ-6CQIOjo2VKJVOXuIdtqvAZ-sOU",)"
                                 R"("y":"IWwsURdyds5sZdyWa6yS6w0qUKuM0zpCtoAkMQNZMCw"}]})";

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    const tls::Identity daemon = ca_.daemon({"head"});
    texts_.chain = {"tls.crt", daemon.chain[0].pem()};
    texts_.key = {"tls.key", daemon.key.private_pem()};
    texts_.ca = {"ca.crt", ca_.certificate.pem()};
  }

  std::shared_ptr<const AccessRules> access() {
    const auto made = AccessRules::of(texts_, kNow);
    EXPECT_TRUE(made) << made.error().detail;
    return made ? *made : nullptr;
  }
  std::string why_refused() {
    const auto made = AccessRules::of(texts_, kNow);
    return made ? "" : made.error().detail;
  }
  std::string why_refused(const std::string& token, tls::WallTime now = kNow) {
    const auto found = access()->by_token(token, now);
    if (!found) {
      EXPECT_EQ(found.error().code, Code::unauthenticated);
    }
    return found ? "" : found.error().detail;
  }
  std::string token(const std::string& name = "alice", const std::string& jobs = "llm-*",
                    const tls::Key* key = nullptr) const {
    return tls::signed_token({name, "trainer", {jobs}, kNow, kNow + 24h, ""},
                             key == nullptr ? ca_.key : *key);
  }
  /// A token of the cluster, for which the grants have an issuer.
  std::string site_token(const json::object& claims, const std::string& key_id = "") const {
    const json::object header = {{"alg", "ES256"}, {"kid", key_id}};
    const std::string text =
        base64url_encode(json::serialize(header)) + "." + base64url_encode(json::serialize(claims));
    return text + "." + base64url_encode(site_.sign(text));
  }
  void use_grants(const std::string& more = "") {
    const std::string text =
        more +
        "[[issuer]]\nname = \"k8s\"\nissuer = \"https://k8s\"\naudience = \"c10dd\"\n"
        "jwks = \"keys.json\"\n"
        "[[grant]]\nwho = \"k8s:system:serviceaccount:*:trainer\"\nrole = \"trainer\"\n"
        "jobs = [\"{1}.*\"]\n"
        "[[grant]]\nwho = \"cert:spiffe://site/ops\"\nrole = \"admin\"\n"
        "jobs = [\"*\"]\n";
    texts_.grants = *grants_in(text, "grants.toml");
  }

  const tls::Ca ca_;
  const tls::Key site_ = *tls::Key::from_private_pem(kSiteKey, "key");
  AccessTexts texts_;
};

TEST_F(AccessTest, ATokenOfTheClustersCaSaysWhoAndWhat) {
  const auto alice = access()->by_token(token(), kNow);
  ASSERT_TRUE(alice) << alice.error().detail;
  EXPECT_EQ(alice->name, "alice");
  EXPECT_EQ(alice->roles.in("llm-1"), Role::trainer);
  EXPECT_EQ(alice->roles.in("other"), Role::none);
  EXPECT_EQ(alice->ends, kNow + 24h);
}

TEST_F(AccessTest, OtherTokensAreRefusedWithTheCure) {
  const std::string cure = "; ask for a new one (c10ddctl ca token)";
  const tls::Key other = tls::Key::make();
  EXPECT_EQ(why_refused(token("alice", "*", &other)),
            "the token is of another cluster's CA" + cure);
  EXPECT_EQ(why_refused(token(), kNow + 25h), "the token has expired" + cure);
  EXPECT_EQ(why_refused(token("alice", "a*b")),
            "the token has a pattern of jobs that cannot be read" + cure);
  EXPECT_EQ(why_refused(""), "the token is empty" + cure);
  EXPECT_EQ(why_refused(site_token({{"iss", "https://k8s"}, {"sub", "a"}, {"exp", 4e9}})),
            "the token is of an issuer that this daemon does not know" + cure);
  use_grants("revoked = [\"bob\"]\n");
  texts_.jwks = {{"keys.json", R"({"keys":[]})"}};
  EXPECT_EQ(why_refused(), "keys.json has no key that signs by ES256 or RS256");
}

TEST_F(AccessTest, ARevokedNameIsRefused) {
  texts_.grants = *grants_in("revoked = [\"bob\"]\n", "grants.toml");
  EXPECT_EQ(why_refused(token("bob")),
            "the token is revoked; ask for a new one (c10ddctl ca token)");
  EXPECT_EQ(why_refused(token("bobby")), "");
}

TEST_F(AccessTest, AnIssuersTokenGetsWhatTheGrantsGive) {
  use_grants();
  const json::object claims = {{"iss", "https://k8s"},
                               {"aud", json::array{"other", "c10dd"}},
                               {"sub", "system:serviceaccount:vision:trainer"},
                               {"exp", 4e9}};
  EXPECT_EQ(why_refused(), "keys.json was not read");
  texts_.jwks = {{"keys.json", kSiteSet}};
  const auto found = access()->by_token(site_token(claims), kNow);
  ASSERT_TRUE(found) << found.error().detail;
  EXPECT_EQ(found->name, "k8s:system:serviceaccount:vision:trainer");
  EXPECT_EQ(found->roles.in("vision.1"), Role::trainer);
  EXPECT_EQ(found->roles.in("other"), Role::none);
  EXPECT_TRUE(access()->by_token(site_token(claims, "site"), kNow));
  const std::string untrusted =
      "the token is not signed by a key that this daemon trusts; ask for a new one (c10ddctl ca "
      "token)";
  EXPECT_EQ(why_refused(site_token(claims, "older")), untrusted);
  json::object other = claims;
  other["aud"] = "etcd";
  EXPECT_EQ(why_refused(site_token(other)),
            "the token is not for audience \"c10dd\"; ask its issuer for one that is");
  other = claims;
  other["sub"] = "system:serviceaccount:vision:other";
  EXPECT_EQ(access()->by_token(site_token(other), kNow)->roles.anywhere(), Role::none);
  other = claims;
  other["iss"] = "c10dd";
  EXPECT_FALSE(access()->by_token(site_token(other), kNow)) << "it is none of the CA's";
  std::string changed = site_token(claims);
  changed[changed.size() - 10] = changed[changed.size() - 10] == 'A' ? 'B' : 'A';
  EXPECT_EQ(why_refused(changed), untrusted);
}

TEST_F(AccessTest, OneIssuerHasSeveralAudiencesAndKeys) {
  const auto issuer = [](const std::string& name, const std::string& audience,
                         const std::string& keys = "keys.json") {
    return "[[issuer]]\nname = \"" + name + "\"\nissuer = \"https://k8s\"\naudience = \"" +
           audience + "\"\njwks = \"" + keys + "\"\n";
  };
  const std::string text = issuer("k8s", "c10dd") + issuer("old", "vault", "other.json") +
                           issuer("ci", "vault") +
                           "[[grant]]\nwho = \"ci:bot\"\nrole = \"viewer\"\njobs = [\"*\"]\n";
  texts_.grants = *grants_in(text, "grants.toml");
  const std::string weak = R"({"kty":"RSA","n":"wQ","e":"AQAB","kid":"weak"},)";
  std::string other = kSiteSet;
  other.replace(other.find("D3gqlmVzGC9IZbQQ-6CQIOjo2VKJVOXuIdtqvAZ-sOU"), 43,
                "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4");
  other.replace(other.find("IWwsURdyds5sZdyWa6yS6w0qUKuM0zpCtoAkMQNZMCw"), 43,
                "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM");
  std::string mixed = kSiteSet;
  mixed.insert(mixed.find('[') + 1, weak);
  texts_.jwks = {{"keys.json", mixed}, {"other.json", other}};
  const auto rules = access();
  const auto of = [&](const json::value& audiences, const std::string& subject = "bot") {
    const json::object claims = {
        {"iss", "https://k8s"}, {"aud", audiences}, {"sub", subject}, {"exp", 4e9}};
    const auto found = rules->by_token(site_token(claims), kNow);
    return found ? found->name : found.error().detail;
  };
  EXPECT_EQ(of("c10dd"), "k8s:bot");
  EXPECT_EQ(of("vault"), "ci:bot") << "the keys of the entry before it have not signed it";
  EXPECT_EQ(of(json::array{"c10dd", "vault"}), "ci:bot") << "which has a grant";
  EXPECT_EQ(of(json::array{"vault", "c10dd"}, "eve"), "k8s:eve") << "none has: the first one";
  EXPECT_EQ(of("etcd"),
            "the token is not for audience \"c10dd\" or \"vault\"; ask its issuer for "
            "one that is");
  EXPECT_EQ(rules->left_out(),
            std::vector<std::string>{
                "key 1 (kid weak) of keys.json is left out: the RSA key has 8 bits, but needs 2048 "
                "or more"})
      << "once, although two entries have the file";
}

TEST_F(AccessTest, ACertificateCountsUntilItsEnd) {
  use_grants();
  texts_.jwks = {{"keys.json", kSiteSet}};
  const tls::Certificate shown = client_certificate();
  const auto found = access()->by_certificate(shown, shown.ends());
  ASSERT_TRUE(found) << found.error().detail;
  EXPECT_EQ(found->name, "cert:spiffe://site/ops");
  EXPECT_EQ(found->ends, shown.ends());
  const auto late = access()->by_certificate(shown, shown.ends() + 1s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::unauthenticated);
  EXPECT_EQ(late.error().detail,
            "the certificate of this client has expired; renew the file of C10DD_CERT_FILE");
  texts_.grants = {};
  EXPECT_EQ(access()->by_certificate(shown, kNow).error().detail,
            "no grant names the certificate of this client; set C10DD_TOKEN_FILE to a token of "
            "this cluster");
}

TEST_F(AccessTest, TwoPrincipalsHaveTwoNames) {
  const std::string plain = principal_name("", "alice");
  EXPECT_EQ(plain, "alice");
  EXPECT_EQ(principal_name("k8s", "alice"), "k8s:alice");
  const std::string same = "k8s:alice";  // a name of our own token
  EXPECT_NE(principal_name("", same), same);
  EXPECT_TRUE(principal_name("", same).starts_with(same + "#"));
  EXPECT_NE(principal_name("", "a\nb"), principal_name("", "a\rb"));
  const std::string long_name(400, 'x');
  EXPECT_NE(principal_name("k8s", long_name + "1"), principal_name("k8s", long_name + "2"));
  EXPECT_EQ(principal_name("k8s", long_name + "1"), principal_name("k8s", long_name + "1"));
  EXPECT_LE(principal_name("k8s", long_name).size(), limits::kNameBytes);
}

TEST_F(AccessTest, FilesThatDoNotFitTogetherAreRefused) {
  const AccessTexts good = texts_;
  texts_.key.text = ca_.key.private_pem();
  EXPECT_EQ(why_refused(),
            "the key in tls.key does not belong to the first certificate in tls.crt");
  texts_ = good;
  texts_.ca.text = texts_.chain.text;
  EXPECT_EQ(why_refused(), "ca.crt has a certificate that is not of a CA");
  texts_ = good;
  texts_.chain.text = ca_.certificate.pem();
  texts_.key.text = ca_.key.private_pem();
  EXPECT_EQ(why_refused(),
            "tls.crt begins with the certificate of a CA, not of a daemon; use c10ddctl ca daemon");
  const tls::Identity late = ca_.daemon({"head"}, kNow - 100h, kNow - 1h);
  texts_.chain.text = late.chain[0].pem();
  texts_.key.text = late.key.private_pem();
  EXPECT_EQ(why_refused(), "the certificate in tls.crt has expired; renew it");
  texts_ = good;
  texts_.ca.text = tls::Ca().certificate.pem();
  const std::string stranger =
      "no CA in ca.crt has signed the certificate in tls.crt; add the certificate of the CA that "
      "has, or use files that belong together";
  EXPECT_EQ(why_refused(), stranger);
  texts_.chain.text += texts_.ca.text;
  EXPECT_EQ(why_refused(), stranger) << "the other CA in the chain is not above the certificate";
}

TEST_F(AccessTest, AClientWithATokenKnowsTheDaemonByItsCa) {
  const auto shown = access();
  tls::Wire wire(tls::client_of(tls::CaHash{ca_.key.hash()}), shown->server());
  EXPECT_EQ(wire.open(), "") << "the CA is shown, although tls.crt does not have it";
  tls::Wire fleet(shown->to_daemons(), shown->server());
  EXPECT_EQ(fleet.open(), "");
  EXPECT_FALSE(fleet.server.peer()) << "no grant asks for certificates";
  EXPECT_EQ(shown->certificate().ends(), kNow + 1'000h);
  use_grants();
  texts_.jwks = {{"keys.json", kSiteSet}};
  const auto asks = access();
  tls::Wire asked(asks->to_daemons(), asks->server());
  EXPECT_EQ(asked.open(), "");
  EXPECT_FALSE(asked.server.peer()) << "a daemon shows none to another one";
  EXPECT_EQ(asked.server.peer_refused(), "");
  const tls::Ca stranger("other");
  EXPECT_EQ(tls::Wire(asks->to_daemons(), tls::server_of(stranger.daemon())).open(),
            "the daemon's certificate is not signed by a CA that the daemon that has connected "
            "trusts; give both daemons a ca.crt with the CAs of both");
}

}  // namespace
}  // namespace c10dd::daemon
