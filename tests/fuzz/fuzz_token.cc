// SPDX-License-Identifier: Apache-2.0
// Any bytes as a token, as the claims of a token that is signed, and as a change of a signed token.
// A key accepts only what it has signed, in its time; what a token of c10ddctl says is read back
// from one that says the same; no failure shows a part of the token.
#include "protocol/tls/token.h"

#include <algorithm>
#include <span>

#include "protocol/base64.h"
#include "protocol/tls/jwks.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rsa_sample.h"
#include "tests/fuzz/target.h"

namespace {

namespace tls = c10dd::tls;
using c10dd::Result;
using c10dd::fuzz::Input;
using std::chrono::seconds;

constexpr std::size_t kWordBytes = 80;  // of what a failure says of a token

const tls::Key& own_key() {
  static const tls::Key& key = *new tls::Key(tls::Key::make());
  return key;
}
const tls::Key& other_key() {
  static const tls::Key& key = *new tls::Key(tls::Key::make());
  return key;
}
const tls::Key& rsa_key() {
  static const tls::Key& key =
      *new tls::Key(tls::keys_of(c10dd::fuzz::kRsaSet, "the sample")->keys.front().key);
  return key;
}

/// What a failure may say: a sentence of ours, with no place for anything of a token.
void expect_words(const c10dd::Failure& why) {
  C10DD_ASSERT(why.code == c10dd::Code::unauthenticated);
  C10DD_ASSERT(why.detail.starts_with("the token ") && why.detail.size() < 2 * kWordBytes);
  for (const char c : why.detail) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    C10DD_ASSERT(plain || std::string_view(" ,;()").find(c) != std::string_view::npos);
  }
}

Result<tls::Token> read(std::string_view text) {
  Result<tls::Token> token = tls::token_of(text);
  if (!token) {
    expect_words(token.error());
    return token;
  }
  C10DD_ASSERT(text.size() >= token->signed_text.size() + token->signature.size());
  if (const auto own = tls::own_token(*token); !own) expect_words(own.error());
  return token;
}

void expect_refused(std::string_view text, const tls::Key& key, tls::WallTime now) {
  const Result<tls::Token> token = read(text);
  if (!token) return;
  const Result<void> good = tls::check(*token, key, now);
  C10DD_ASSERT(!good);
  expect_words(good.error());
}

/// Nothing is accepted but what was signed: of all texts in the world only the sample.
void take_any(Input& in) {
  const std::string_view text = in.rest();
  expect_refused(text, own_key(), tls::WallTime());
  const Result<tls::Token> token = read(text);
  const bool good = token && tls::check(*token, rsa_key(), tls::WallTime()).has_value();
  C10DD_ASSERT(!good || text.find(c10dd::fuzz::kRsaToken) != text.npos);
}

/// What c10ddctl could have signed says the same when it is signed again.
void sign_again(const tls::Token& token) {
  const Result<tls::OwnToken> own = tls::own_token(token);
  if (!own) return;
  C10DD_ASSERT(own->name == token.subject && own->ca_hash.size() == own_key().hash().size());
  const std::string text = tls::signed_token(*own, own_key());
  if (text.size() > tls::kTokenBytes) return;
  const Result<tls::Token> again = read(text);
  C10DD_ASSERT(again && (own->begins > own->ends || tls::check(*again, own_key(), own->ends)));
  const Result<tls::OwnToken> same = tls::own_token(*again);
  C10DD_ASSERT(same && same->name == own->name && same->role == own->role);
  C10DD_ASSERT(same->jobs == own->jobs && same->begins == own->begins && same->ends == own->ends);
  C10DD_ASSERT(same->ca_hash == own_key().hash());
}

/// Any claims, signed: they count in their time only, and for this key only.
void take_claims(Input& in) {
  constexpr std::string_view kHeads[] = {R"({"alg":"ES256","typ":"JWT"})",
                                         R"({"kid":"a","alg":"ES256"})",
                                         R"({"alg":"RS256"})",
                                         R"({"alg":"none"})",
                                         R"({"alg":"ES256","crit":["exp"]})",
                                         R"({"alg":["ES256"]})"};
  constexpr std::size_t kGood = 3;  // of these
  const std::string_view head = in.one_of(kHeads);
  const auto offset = seconds(static_cast<std::int16_t>(in.two_bytes()));
  const std::size_t at = in.two_bytes();
  const auto flip = static_cast<char>(1 + in.below(255));
  const std::string_view body = in.rest();
  const std::string said = c10dd::base64url_encode(head) + "." + c10dd::base64url_encode(body);
  std::string text = said + "." + c10dd::base64url_encode(own_key().sign(said));
  const Result<tls::Token> token = read(text);
  if (token) {
    C10DD_ASSERT(std::ranges::count(std::span(kHeads).first(kGood), head) == 1);
    C10DD_ASSERT(token->body == body && token->signed_text == said);
    const tls::WallTime now = token->ends.value_or(tls::WallTime()) + offset;
    const bool in_time = token->ends && offset <= tls::kClockSkew &&
                         (!token->begins || now + tls::kClockSkew >= *token->begins);
    const bool good = tls::check(*token, own_key(), now).has_value();
    C10DD_ASSERT(good == (in_time && token->how == tls::Signature::es256));
    C10DD_ASSERT(!tls::check(*token, other_key(), now) && !tls::check(*token, rsa_key(), now));
    sign_again(*token);
  }
  text[at % text.size()] = static_cast<char>(text[at % text.size()] ^ flip);
  expect_refused(text, own_key(), token && token->ends ? *token->ends : tls::WallTime());
}

/// One byte of a token that an RSA key has signed.
void change_rsa(Input& in) {
  const tls::WallTime now{seconds(1'900'000'000)};
  std::string text(c10dd::fuzz::kRsaToken);
  const Result<tls::Token> token = read(text);
  C10DD_ASSERT(token && tls::check(*token, rsa_key(), now));
  C10DD_ASSERT(!tls::check(*token, own_key(), now));
  const std::size_t at = in.two_bytes() % text.size();
  text[at] = static_cast<char>(text[at] ^ static_cast<char>(1 + in.below(255)));
  expect_refused(text, rsa_key(), now);
}

}  // namespace

C10DD_FUZZ(token) {
  Input in(data, size);
  switch (in.below(3)) {
    case 0:
      take_any(in);
      break;
    case 1:
      take_claims(in);
      break;
    default:
      change_rsa(in);
  }
  return 0;
}
