// SPDX-License-Identifier: Apache-2.0
#include "protocol/tls/jwks.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <optional>

#include "protocol/base64.h"
#include "protocol/format.h"

namespace c10dd::tls {
namespace {

namespace json = boost::json;

/// Returns a member that is a string; otherwise an empty text.
std::string_view string_in(const json::object& of, std::string_view name) {
  const json::value* const found = of.if_contains(name);
  if (found == nullptr || !found->is_string()) return {};
  return {found->get_string().data(), found->get_string().size()};
}

/// Returns how a key signs; nothing if it is of no use.
std::optional<Signature> how_signs(const json::object& key) {
  const std::string_view use = string_in(key, "use");
  const std::string_view algorithm = string_in(key, "alg");
  if (!use.empty() && use != "sig") return std::nullopt;
  const auto may = [&](std::string_view name) { return algorithm.empty() || algorithm == name; };
  if (string_in(key, "kty") == "RSA" && may("RS256")) return Signature::rs256;
  const bool is_p256 = string_in(key, "kty") == "EC" && string_in(key, "crv") == "P-256";
  return is_p256 && may("ES256") ? std::optional(Signature::es256) : std::nullopt;
}

Result<Key> key_of(const json::object& from, Signature how) {
  const bool rsa = how == Signature::rs256;
  const auto first = base64url_decode(string_in(from, rsa ? "n" : "x"));
  const auto second = base64url_decode(string_in(from, rsa ? "e" : "y"));
  if (!first || !second) return failure(Code::invalid_argument, "its numbers are not base64url");
  return rsa ? Key::from_rsa(*first, *second) : Key::from_ec_point(*first, *second);
}

}  // namespace

Result<std::vector<NamedKey>> keys_of(std::string_view text, std::string_view what) {
  json::error_code error;
  const json::value page = json::parse(text, error);
  const json::object* const object = error ? nullptr : page.if_object();
  const json::value* const list = object == nullptr ? nullptr : object->if_contains("keys");
  if (list == nullptr || !list->is_array()) {
    return failure(Code::invalid_argument,
                   "{} is not a JSON Web Key Set; it needs an object with a list \"keys\"", what);
  }
  if (list->get_array().size() > kMostKeys) {
    return failure(Code::invalid_argument, "{} has {} keys, limit {}", what,
                   list->get_array().size(), kMostKeys);
  }
  std::vector<NamedKey> found;
  std::size_t number = 0;
  for (const json::value& one : list->get_array()) {
    ++number;
    const json::object* const members = one.if_object();
    const auto how = members == nullptr ? std::nullopt : how_signs(*members);
    if (!how) continue;
    Result<Key> key = key_of(*members, *how);
    if (!key) {
      return failure(Code::invalid_argument, "key {} of {} is damaged: {}", number, what,
                     key.error().detail);
    }
    found.push_back({std::string(string_in(*members, "kid")), *how, std::move(*key)});
  }
  if (!found.empty()) return found;
  return failure(Code::invalid_argument, "{} has no key that signs by ES256 or RS256", what);
}

}  // namespace c10dd::tls
