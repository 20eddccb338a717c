// SPDX-License-Identifier: Apache-2.0
#include "protocol/tls/token.h"

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <cmath>

#include "protocol/base64.h"
#include "protocol/format.h"

namespace c10dd::tls {
namespace {

namespace json = boost::json;

/// Returns the object that a text in JSON stands for.
Result<json::object> object_of(std::string_view text) {
  json::error_code error;
  json::parse_options options;
  options.max_depth = 8;
  const json::value value = json::parse(text, error, {}, options);
  if (error || !value.is_object()) return bad_token("is not a JSON Web Token");
  return value.get_object();
}

/// Returns a member that must be a string if it exists.
Result<std::string> text_in(const json::object& of, std::string_view name) {
  const json::value* const found = of.if_contains(name);
  if (found == nullptr) return std::string();
  if (!found->is_string()) return bad_token(format("has a member {} that is not a string", name));
  return std::string(found->get_string());
}

/// Returns a member that is a string, or a list of strings.
Result<std::vector<std::string>> texts_in(const json::object& of, std::string_view name) {
  std::vector<std::string> all;
  const json::value* const found = of.if_contains(name);
  if (found == nullptr) return all;
  if (found->is_string()) return std::vector{std::string(found->get_string())};
  const Failure bad = bad_token(format("has a member {} that is not a list of strings", name));
  if (!found->is_array()) return bad;
  for (const json::value& one : found->get_array()) {
    if (!one.is_string()) return bad;
    all.emplace_back(one.get_string());
  }
  return all;
}

/// Returns a member that is a time in Unix seconds, if it exists.
Result<std::optional<WallTime>> time_in(const json::object& of, std::string_view name) {
  constexpr double kLast = 253'402'300'799;  // of the year 9999
  const json::value* const found = of.if_contains(name);
  if (found == nullptr) return std::optional<WallTime>();
  json::error_code error;
  const double seconds = found->is_number() ? found->to_number<double>(error) : -1;
  if (error || !(seconds >= 0 && seconds <= kLast)) {
    return bad_token(format("has a member {} that is not a time", name));
  }
  return std::optional(WallTime(std::chrono::seconds(static_cast<std::int64_t>(seconds))));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::int64_t unix_seconds(WallTime time) { return time.time_since_epoch().count(); }

/// Reads the claims that every token may have.
Result<void> read_claims(Token& token) {
  const Result<json::object> body = object_of(token.body);
  if (!body) return body.error();
  Result<std::string> issuer = text_in(*body, "iss");
  if (!issuer) return issuer.error();
  Result<std::string> subject = text_in(*body, "sub");
  if (!subject) return subject.error();
  Result<std::vector<std::string>> audiences = texts_in(*body, "aud");
  if (!audiences) return audiences.error();
  const Result<std::optional<WallTime>> ends = time_in(*body, "exp");
  if (!ends) return ends.error();
  const Result<std::optional<WallTime>> begins = time_in(*body, "nbf");
  if (!begins) return begins.error();
  token.issuer = std::move(*issuer);
  token.subject = std::move(*subject);
  token.audiences = std::move(*audiences);
  token.ends = *ends;
  token.begins = *begins;
  return {};
}

}  // namespace

Failure bad_token(std::string_view why) {
  return failure(Code::unauthenticated, "the token {}; ask for a new one (c10ddctl ca token)", why);
}

Result<Token> token_of(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) return bad_token("is empty");
  if (text.size() > kTokenBytes) {
    return bad_token(format("has {} bytes, limit {}", text.size(), kTokenBytes));
  }
  const std::size_t first = text.find('.');
  const std::size_t second = first == text.npos ? text.npos : text.find('.', first + 1);
  if (second == text.npos) return bad_token("is not a JSON Web Token");
  const auto head = base64url_decode(text.substr(0, first));
  auto body = base64url_decode(text.substr(first + 1, second - first - 1));
  auto signature = base64url_decode(text.substr(second + 1));
  if (!head || !body || !signature) return bad_token("is not a JSON Web Token");
  const Result<json::object> header = object_of(*head);
  if (!header) return header.error();
  const Result<std::string> algorithm = text_in(*header, "alg");
  if (!algorithm) return algorithm.error();
  if (*algorithm != "ES256" && *algorithm != "RS256") {
    return bad_token("is signed by an algorithm other than ES256 and RS256");
  }
  if (header->contains("crit")) {
    return bad_token("needs an extension that this version does not have");
  }
  Result<std::string> key_id = text_in(*header, "kid");
  if (!key_id) return key_id.error();
  Token token{.how = *algorithm == "ES256" ? Signature::es256 : Signature::rs256};
  token.key_id = std::move(*key_id);
  token.body = std::move(*body);
  token.signature = std::move(*signature);
  token.signed_text = text.substr(0, second);
  if (Result<void> good = read_claims(token); !good) return good.error();
  return token;
}

Result<void> check(const Token& token, const Key& key, WallTime now) {
  if (!key.verifies(token.how, token.signed_text, token.signature)) {
    return bad_token("is not signed by a key that this daemon trusts");
  }
  if (!token.ends) return bad_token("never expires");
  if (now > *token.ends + kClockSkew) return bad_token("has expired");
  if (token.begins && now < *token.begins - kClockSkew) {
    return failure(Code::unauthenticated,
                   "the token is not valid yet; compare the clocks of both hosts");
  }
  return {};
}

std::string signed_token(const OwnToken& of, const Key& ca_key) {
  const json::object header = {{"alg", "ES256"}, {"typ", "JWT"}};
  const json::object body = {{"iss", kOwnIssuer},
                             {"sub", of.name},
                             {"role", of.role},
                             {"jobs", json::array(of.jobs.begin(), of.jobs.end())},
                             {"nbf", unix_seconds(of.begins)},
                             {"exp", unix_seconds(of.ends)},
                             {"ca", base64url_encode(ca_key.hash())}};
  std::string text =
      base64url_encode(json::serialize(header)) + "." + base64url_encode(json::serialize(body));
  return text + "." + base64url_encode(ca_key.sign(text));
}

Result<OwnToken> own_token(const Token& token) {
  if (token.issuer != kOwnIssuer) return bad_token("is of another issuer");
  const Result<json::object> body = object_of(token.body);
  if (!body) return body.error();
  const Result<std::string> role = text_in(*body, "role");
  if (!role) return role.error();
  Result<std::vector<std::string>> jobs = texts_in(*body, "jobs");
  if (!jobs) return jobs.error();
  const Result<std::string> hash = text_in(*body, "ca");
  if (!hash) return hash.error();
  const std::optional<std::string> bytes = base64url_decode(*hash);
  const bool complete = !token.subject.empty() && std::ranges::count(kRoles, *role) > 0 && bytes &&
                        bytes->size() == 32 && token.ends && token.begins;
  if (!complete) return bad_token("lacks a member that c10ddctl writes");
  return OwnToken{.name = token.subject,
                  .role = *role,
                  .jobs = std::move(*jobs),
                  .begins = *token.begins,
                  .ends = *token.ends,
                  .ca_hash = *bytes};
}

}  // namespace c10dd::tls
