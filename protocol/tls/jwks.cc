// SPDX-License-Identifier: Apache-2.0
#include "protocol/tls/jwks.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include <string>
#include <utility>

#include "protocol/base64.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::tls {
namespace {

namespace json = boost::json;

constexpr std::size_t kKindBytes = 16;  // of a member that is shown
constexpr std::size_t kIdBytes = 64;    // of a name that is shown

/// Returns a member that is a string; otherwise an empty text.
std::string_view string_in(const json::object& of, std::string_view name) {
  const json::value* const found = of.if_contains(name);
  if (found == nullptr || !found->is_string()) return {};
  return {found->get_string().data(), found->get_string().size()};
}

/// Returns whether a key is meant for something else than signatures.
bool has_other_use(const json::object& key) {
  const std::string_view use = string_in(key, "use");
  return !use.empty() && use != "sig";
}

/// Returns how a key signs; fails if it does so in another way than tokens.
Result<Signature> how_signs(const json::object& key) {
  const std::string_view algorithm = string_in(key, "alg");
  const auto may = [&](std::string_view name) { return algorithm.empty() || algorithm == name; };
  if (string_in(key, "kty") == "RSA" && may("RS256")) return Signature::rs256;
  const bool is_p256 = string_in(key, "kty") == "EC" && string_in(key, "crv") == "P-256";
  if (is_p256 && may("ES256")) return Signature::es256;
  std::string kind;
  for (const char* const name : {"kty", "crv", "alg"}) {
    const std::string_view is = string_in(key, name);
    if (!is.empty()) kind += format(" {} {}", name, printable(is, kKindBytes));
  }
  return failure(Code::invalid_argument, "it does not sign by ES256 or RS256 ({})",
                 kind.empty() ? "no kty" : kind.substr(1));
}

Result<Key> numbers_of(const json::object& from, Signature how) {
  const bool rsa = how == Signature::rs256;
  const auto first = base64url_decode(string_in(from, rsa ? "n" : "x"));
  const auto second = base64url_decode(string_in(from, rsa ? "e" : "y"));
  if (!first || !second) return failure(Code::invalid_argument, "its numbers are not base64url");
  return rsa ? Key::from_rsa(*first, *second) : Key::from_ec_point(*first, *second);
}

Result<NamedKey> key_of(const json::object& from) {
  const Result<Signature> how = how_signs(from);
  if (!how) return how.error();
  Result<Key> key = numbers_of(from, *how);
  if (!key) return key.error();
  return NamedKey{std::string(string_in(from, "kid")), *how, std::move(*key)};
}

/// Says which key of a set cannot be used, and why.
std::string left_out(std::size_t number, const json::object* members, std::string_view what,
                     std::string_view why) {
  const std::string_view id = members == nullptr ? "" : string_in(*members, "kid");
  const std::string named = id.empty() ? "" : format(" (kid {})", printable(id, kIdBytes));
  return format("key {}{} of {} is left out: {}", number, named, what, why);
}

}  // namespace

Result<KeySet> keys_of(std::string_view text, std::string_view what) {
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
  KeySet found;
  std::size_t number = 0;
  for (const json::value& one : list->get_array()) {
    ++number;
    const json::object* const members = one.if_object();
    if (members != nullptr && has_other_use(*members)) continue;
    Result<NamedKey> key = members != nullptr
                               ? key_of(*members)
                               : failure(Code::invalid_argument, "it is not an object");
    if (key) {
      found.keys.push_back(std::move(*key));
    } else {
      found.left_out.push_back(left_out(number, members, what, key.error().detail));
    }
  }
  if (!found.keys.empty()) return found;
  return failure(Code::invalid_argument, "{} has no key that signs by ES256 or RS256{}", what,
                 found.left_out.empty() ? "" : "; " + found.left_out.front());
}

}  // namespace c10dd::tls
