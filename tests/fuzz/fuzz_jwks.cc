// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JSON Web Key Set: keys that can do what they are for, or a refusal with a name and
// without the bytes. The same set in other words has the same keys, and none of them accepts a
// token that another key has signed.
#include "protocol/tls/jwks.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "protocol/tls/token.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rsa_sample.h"
#include "tests/fuzz/shown.h"
#include "tests/fuzz/target.h"

namespace {

namespace json = boost::json;
namespace tls = c10dd::tls;
using Keys = std::vector<tls::NamedKey>;

constexpr std::string_view kName = "k8s.json";
constexpr std::size_t kTextBytes = 400;  // of a refusal, with the name of a key

bool is_same(const Keys& one, const Keys& other) {
  return std::ranges::equal(one, other, [](const tls::NamedKey& a, const tls::NamedKey& b) {
    return a.id == b.id && a.how == b.how && a.key.is_same(b.key) && a.key.hash() == b.key.hash();
  });
}

/// A set that was read, once more: written anew, and with keys that nobody needs.
void read_again(const Keys& keys, std::string_view text) {
  json::value page = json::parse(text);
  const auto same = tls::keys_of(json::serialize(page), kName);
  C10DD_ASSERT(same && is_same(keys, same->keys));
  json::array& list = page.get_object().at("keys").get_array();
  for (const tls::NamedKey& one : keys) {
    const auto has_it = [&](const json::value& of) {
      const json::value* const id = of.is_object() ? of.get_object().if_contains("kid") : nullptr;
      return id != nullptr && id->is_string() && id->get_string() == one.id;
    };
    C10DD_ASSERT(one.id.empty() || std::ranges::any_of(list, has_it));
  }
  list.insert(list.begin(), json::value{{"kty", "oct"}, {"k", "AAAA"}});
  list.push_back(json::value{{"kty", "RSA"}, {"use", "enc"}});
  list.push_back(json::value{{"kty", "EC"}, {"crv", "P-256"}, {"alg", "ES384"}});
  const auto more = tls::keys_of(json::serialize(page), kName);
  C10DD_ASSERT(more ? is_same(keys, more->keys) : list.size() > tls::kMostKeys);
}

}  // namespace

C10DD_FUZZ(jwks) {
  static const auto& sample = *new tls::Token(*tls::token_of(c10dd::fuzz::kRsaToken));
  static const auto& signer = *new Keys(tls::keys_of(c10dd::fuzz::kRsaSet, kName)->keys);
  const std::string_view text = c10dd::fuzz::Input(data, size).rest();
  const auto set = tls::keys_of(text, kName);
  c10dd::fuzz::expect_shown(set);
  if (!set) {
    const std::string& why = set.error().detail;
    C10DD_ASSERT(set.error().code == c10dd::Code::invalid_argument);
    C10DD_ASSERT(why.find(kName) != std::string::npos && why.size() < kTextBytes);
    return 0;
  }
  const Keys& keys = set->keys;
  C10DD_ASSERT(!keys.empty() && keys.size() + set->left_out.size() <= tls::kMostKeys);
  for (const std::string& why : set->left_out) C10DD_ASSERT(why.size() < kTextBytes);
  const tls::WallTime now{std::chrono::seconds(1'900'000'000)};
  for (const tls::NamedKey& one : keys) {
    C10DD_ASSERT(one.key.fits(one.how));
    const bool good = tls::check(sample, one.key, now).has_value();
    C10DD_ASSERT(good == one.key.is_same(signer.front().key));
  }
  read_again(keys, text);
  return 0;
}
