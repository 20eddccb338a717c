// SPDX-License-Identifier: Apache-2.0
// Tokens: what c10ddctl signs is read back, and every change of it is refused.
#include "protocol/tls/token.h"

#include <boost/json/serialize.hpp>

#include "protocol/base64.h"
#include "protocol/tls/jwks.h"
#include "tests/unit/protocol/tls_parties.h"

namespace c10dd::tls {
namespace {

namespace json = boost::json;

OwnToken alice() {
  return {.name = "alice",
          .role = "trainer",
          .jobs = {"llm-*"},
          .begins = kNow,
          .ends = kNow + 720h,
          .ca_hash = ""};
}

/// Returns why a token is refused now; empty: it is good.
std::string why_refused(std::string_view text, const Key& key, WallTime now = kNow) {
  const Result<Token> token = token_of(text);
  if (!token) {
    EXPECT_EQ(token.error().code, Code::unauthenticated);
    return token.error().detail;
  }
  const Result<void> good = check(*token, key, now);
  if (!good) {
    EXPECT_EQ(good.error().code, Code::unauthenticated);
    return good.error().detail;
  }
  const Result<OwnToken> own = own_token(*token);
  return own ? "" : own.error().detail;
}

/// A token with these parts, signed.
std::string made(const json::object& header, const json::object& body, const Key& key) {
  const std::string text =
      base64url_encode(json::serialize(header)) + "." + base64url_encode(json::serialize(body));
  return text + "." + base64url_encode(key.sign(text));
}

std::string because(std::string_view why) {
  return "the token " + std::string(why) + "; ask for a new one (c10ddctl ca token)";
}

TEST(TlsToken, SaysWhoIsWhoUntilWhen) {
  const Key key = Key::make();
  const std::string text = signed_token(alice(), key);
  const Result<Token> token = token_of("\n " + text + "\n");
  ASSERT_TRUE(token);
  EXPECT_TRUE(check(*token, key, kNow));
  const Result<OwnToken> own = own_token(*token);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->name, "alice");
  EXPECT_EQ(own->role, "trainer");
  EXPECT_EQ(own->jobs, std::vector<std::string>{"llm-*"});
  EXPECT_EQ(own->begins, alice().begins);
  EXPECT_EQ(own->ends, alice().ends);
  EXPECT_EQ(own->ca_hash, key.hash());
}

TEST(TlsToken, ItsTimeCountsWithAMinuteForClocks) {
  const Key key = Key::make();
  const std::string text = signed_token(alice(), key);
  EXPECT_EQ(why_refused(text, key, alice().ends + 60s), "");
  EXPECT_EQ(why_refused(text, key, alice().ends + 61s), because("has expired"));
  EXPECT_EQ(why_refused(text, key, alice().begins - 60s), "");
  EXPECT_EQ(why_refused(text, key, alice().begins - 61s),
            "the token is not valid yet; compare the clocks of both hosts");
}

TEST(TlsToken, AnotherKeyOrAChangedByteIsRefused) {
  const Key key = Key::make();
  const std::string text = signed_token(alice(), key);
  const std::string untrusted = because("is not signed by a key that this daemon trusts");
  EXPECT_EQ(why_refused(text, Key::make()), untrusted);
  std::size_t taken = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    if (why_refused(changed, key).empty()) ++taken;
    EXPECT_FALSE(why_refused(text.substr(0, at), key).empty()) << at;
  }
  EXPECT_EQ(taken, 0U);
}

TEST(TlsToken, NoOtherAlgorithmIsTaken) {
  const Key key = Key::make();
  const json::object body = {{"iss", "c10dd"}, {"sub", "eve"}, {"role", "admin"}, {"exp", 4e9}};
  const std::string other = because("is signed by an algorithm other than ES256 and RS256");
  for (const char* name : {"none", "None", "HS256", "ES384", ""}) {
    EXPECT_EQ(why_refused(made({{"alg", name}}, body, key), key), other) << name;
  }
  EXPECT_EQ(why_refused(made({{"typ", "JWT"}}, body, key), key), other);
  EXPECT_EQ(why_refused(made({{"alg", 7}}, body, key), key),
            because("has a member alg that is not a string"));
  EXPECT_EQ(why_refused(made({{"alg", "RS256"}}, body, key), key),
            because("is not signed by a key that this daemon trusts"));
  EXPECT_EQ(why_refused(made({{"alg", "ES256"}, {"crit", json::array{"b64"}}}, body, key), key),
            because("needs an extension that this version does not have"));
  const std::string unsigned_text =
      base64url_encode(R"({"alg":"ES256"})") + "." + base64url_encode(json::serialize(body)) + ".";
  EXPECT_EQ(why_refused(unsigned_text, key),
            because("is not signed by a key that this daemon trusts"));
}

TEST(TlsToken, WhatIsNoTokenIsRefused) {
  const Key key = Key::make();
  const std::string none = because("is not a JSON Web Token");
  EXPECT_EQ(why_refused("", key), because("is empty"));
  EXPECT_EQ(why_refused(" \n", key), because("is empty"));
  for (const std::string bad : {"a", "a.b", "a.b.c", "....", "e30.e30", "W10.W10.", "{}.{}.x"}) {
    EXPECT_EQ(why_refused(bad, key), none) << bad;
  }
  EXPECT_EQ(why_refused(std::string(65'536, 'a'), key), because("has 65536 bytes, limit 8192"));
  const std::string deep = base64url_encode(std::string(1'000, '[') + std::string(1'000, ']'));
  EXPECT_EQ(why_refused(deep + "." + deep + ".x", key), none);
  const json::object header = {{"alg", "ES256"}};
  const json::object good = {{"iss", "c10dd"}, {"sub", "a"}, {"role", "viewer"},
                             {"nbf", 1},       {"exp", 4e9}, {"ca", base64url_encode(key.hash())}};
  EXPECT_EQ(why_refused(made(header, good, key), key), "");
  const auto with = [&](const char* name, const json::value& value) {
    json::object body = good;
    body[name] = value;
    return why_refused(made(header, body, key), key);
  };
  EXPECT_EQ(with("exp", "soon"), because("has a member exp that is not a time"));
  EXPECT_EQ(with("exp", -1), because("has a member exp that is not a time"));
  EXPECT_EQ(with("exp", 1e300), because("has a member exp that is not a time"));
  EXPECT_EQ(with("aud", 7), because("has a member aud that is not a list of strings"));
  EXPECT_EQ(with("jobs", json::array{1}),
            because("has a member jobs that is not a list of strings"));
  EXPECT_EQ(with("iss", "other"), because("is of another issuer"));
  for (const auto& [name, value] :
       {std::pair<const char*, const char*>{"role", "root"}, {"sub", ""}, {"ca", "AAAA"}}) {
    EXPECT_EQ(with(name, value), because("lacks a member that c10ddctl writes")) << name;
  }
  json::object endless = good;
  endless.erase("exp");
  EXPECT_EQ(why_refused(made(header, endless, key), key), because("never expires"));
}

TEST(TlsJwks, KeepsTheKeysThatSign) {
  // Keys of RFC 7517, A.1.
  const std::string ec =
      R"({"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",)"
      R"("y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","use":"%","kid":"1"})";
  const std::string rsa =
      R"({"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aP)"
      R"(FFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5)"
      R"(v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-)"
      R"(bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",)"
      R"("e":"AQAB","alg":"RS256","kid":"2011-04-29"})";
  const auto signs = [](std::string key) { return key.replace(key.find('%'), 1, "sig"); };
  const auto list = [](const std::string& keys) { return R"({"keys":[)" + keys + "]}"; };
  const auto found = keys_of(list(signs(ec) + "," + rsa + R"(,{"kty":"oct","k":"AA"},7)"), "keys");
  ASSERT_TRUE(found) << found.error().detail;
  ASSERT_EQ(found->keys.size(), 2U);
  EXPECT_EQ(found->keys.at(0).id, "1");
  EXPECT_EQ(found->keys.at(0).how, Signature::es256);
  EXPECT_EQ(found->keys.at(1).id, "2011-04-29");
  EXPECT_EQ(found->keys.at(1).how, Signature::rs256);
  EXPECT_TRUE(found->keys.at(1).key.fits(Signature::rs256));
  EXPECT_EQ(found->left_out,
            (std::vector<std::string>{
                "key 3 of keys is left out: it does not sign by ES256 or RS256 (kty oct)",
                "key 4 of keys is left out: it is not an object"}));
  const auto text = [&](const std::string& set) {
    const auto result = keys_of(set, "keys");
    return result ? "good" : result.error().detail;
  };
  EXPECT_EQ(text("[]"), "keys is not a JSON Web Key Set; it needs an object with a list \"keys\"");
  EXPECT_EQ(text("{"), "keys is not a JSON Web Key Set; it needs an object with a list \"keys\"");
  EXPECT_EQ(text(list("")), "keys has no key that signs by ES256 or RS256");
  std::string encrypts = ec;
  encrypts.replace(encrypts.find('%'), 1, "enc");
  EXPECT_EQ(text(list(encrypts)), "keys has no key that signs by ES256 or RS256");
  std::string off = signs(ec);
  off[off.find("4Etl6")] = '5';
  const std::string none = "keys has no key that signs by ES256 or RS256; ";
  EXPECT_EQ(text(list(off + ",{}")),
            none + "key 1 (kid 1) of keys is left out: x and y are not a point on P-256");
  EXPECT_EQ(text(list(R"({"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZpt","e":"AQAB"})")),
            none + "key 1 of keys is left out: its numbers are not base64url");
  for (const auto& [before, after] : {std::pair("-kEgU8awapJzKnqDKgw", "-kEgU8awapJzKnqDKgA"),
                                      {"AQAB", "AQ"},
                                      {"AQAB", "AQAA"},
                                      {"AQAB", "AQAAAAAAAAAB"}}) {
    std::string wrong = rsa;
    wrong.replace(wrong.find(before), std::string_view(before).size(), after);
    EXPECT_EQ(text(list(wrong)),
              none + "key 1 (kid 2011-04-29) of keys is left out: n and e are not an RSA key")
        << after;
  }
  std::string many;
  for (int i = 0; i < 65; ++i) many += i == 0 ? "{}" : ",{}";
  EXPECT_EQ(text(list(many)), "keys has 65 keys, limit 64");
}

}  // namespace
}  // namespace c10dd::tls
