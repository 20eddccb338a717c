// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/access_rules.h"

#include <algorithm>
#include <utility>

#include "protocol/base64.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kAudiencesShown = 128;  // bytes of those that a token should be for

/// Reads the CA certificates of a cluster.
Result<std::vector<tls::Certificate>> cas_of(const FileText& file) {
  Result<std::vector<tls::Certificate>> all = tls::certificates_of(file.text, file.path);
  if (!all) return all.error();
  if (std::ranges::all_of(*all, &tls::Certificate::is_ca)) return all;
  return failure(Code::invalid_argument, "{} has a certificate that is not of a CA", file.path);
}

/// A daemon shows its CA, too: clients know it by the hash in their token.
void append_ca(tls::Identity& identity, const std::vector<tls::Certificate>& cas) {
  for (const tls::Certificate& ca : cas) {
    const auto is_it = [&](const tls::Certificate& one) { return one.pem() == ca.pem(); };
    if (std::ranges::none_of(identity.chain, is_it)) identity.chain.push_back(ca);
  }
}

Result<void> check_certificate(const tls::Certificate& own, const FileText& file,
                               tls::WallTime now) {
  if (own.is_ca()) {
    return failure(
        Code::invalid_argument,
        "{} begins with the certificate of a CA, not of a daemon; use c10ddctl ca daemon",
        file.path);
  }
  if (!own.may_serve()) {
    return failure(Code::invalid_argument,
                   "the certificate in {} is not one for a server; issue it with the usage "
                   "serverAuth",
                   file.path);
  }
  if (own.ends() <= now) {
    return failure(Code::invalid_argument, "the certificate in {} has expired; renew it",
                   file.path);
  }
  if (!own.hosts().empty()) return {};
  return failure(Code::invalid_argument,
                 "the certificate in {} names no host (subjectAltName); issue it for the daemon's "
                 "hosts",
                 file.path);
}

/// Returns the CA that stands above a daemon's certificate. A client with one of our tokens, and
/// the other daemons, know the daemon by it.
Result<tls::Certificate> ca_above(const std::vector<tls::Certificate>& chain,
                                  const std::vector<tls::Certificate>& cas,
                                  const AccessTexts& texts) {
  const tls::Certificate* below = &chain.front();
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto signs = [&](const tls::Certificate& one) { return below->is_signed_by(one.key()); };
    if (const auto ca = std::ranges::find_if(cas, signs); ca != cas.end()) return *ca;
    const auto next = std::ranges::find_if(chain, signs);
    if (next == chain.end()) break;
    below = &*next;
  }
  return failure(Code::invalid_argument,
                 "no CA in {} has signed the certificate in {}; add the certificate of the CA that "
                 "has, or use files that belong together",
                 texts.ca.path, texts.chain.path);
}

/// Returns the hashes of the CAs that the first one replaces: each is there as a root, and once
/// more as the first one has signed it.
std::set<std::string> former_in(const std::vector<tls::Certificate>& cas) {
  std::set<std::string> former;
  const tls::Key first = cas.front().key();
  for (const tls::Certificate& one : cas) {
    const auto is_its_root = [&](const tls::Certificate& other) {
      return other.key().is_same(one.key()) && other.is_root();
    };
    if (one.key().is_same(first) || !one.is_signed_by(first)) continue;
    if (std::ranges::any_of(cas, is_its_root)) former.insert(one.key().hash());
  }
  return former;
}

Result<tls::KeySet> keys_in(const std::vector<FileText>& files, const std::string& path) {
  const auto file = std::ranges::find(files, path, &FileText::path);
  if (file == files.end()) return failure(Code::invalid_argument, "{} was not read", path);
  return tls::keys_of(file->text, path);
}

}  // namespace

std::string principal_name(std::string_view issuer, std::string_view subject) {
  constexpr std::size_t kHashed = 12;  // bytes
  const std::string full = issuer.empty() ? std::string(subject) : format("{}:{}", issuer, subject);
  const bool ambiguous = issuer.empty() && subject.find(':') != subject.npos;
  if (!ambiguous && printable(full, limits::kNameBytes) == full) return full;
  const std::string hash =
      base64url_encode(tls::sha256(format("{}:{}", issuer, subject)).substr(0, kHashed));
  return printable(full, limits::kNameBytes - hash.size() - 1) + "#" + hash;
}

Result<std::shared_ptr<const AccessRules>> AccessRules::of(const AccessTexts& texts,
                                                           tls::WallTime now) {
  Result<tls::Identity> identity =
      tls::identity_of(texts.chain.text, texts.chain.path, texts.key.text, texts.key.path);
  if (!identity) return identity.error();
  const tls::Certificate own = identity->chain.front();
  if (Result<void> good = check_certificate(own, texts.chain, now); !good) return good.error();
  const Result<std::vector<tls::Certificate>> cas = cas_of(texts.ca);
  if (!cas) return cas.error();
  const Result<tls::Certificate> above = ca_above(identity->chain, *cas, texts);
  if (!above) return above.error();
  append_ca(*identity, *cas);
  const bool asks = texts.grants.asks_for_certificates;
  const auto server =
      tls::Context::server(*identity, asks ? *cas : std::vector<tls::Certificate>());
  if (!server) return server.error();
  // A daemon shows no certificate to another one: the usage serverAuth is none of a client. The
  // secret of the fleet says who it is.
  const auto client = tls::Context::client(tls::KnownCas{*cas}, nullptr, tls::kFleetWords);
  if (!client) return client.error();
  const auto own_client = tls::Context::client(tls::CaHash{above->key().hash()});
  if (!own_client) return own_client.error();
  std::shared_ptr<AccessRules> made(new AccessRules(own, *server, *client, *own_client));
  for (const tls::Certificate& ca : *cas) made->cas_.emplace(ca.key().hash(), ca.key());
  made->former_ = former_in(*cas);
  for (const IssuerEntry& entry : texts.grants.issuers) {
    Result<tls::KeySet> keys = keys_in(texts.jwks, entry.jwks);
    if (!keys) return keys.error();
    made->issuers_.push_back({entry, std::move(keys->keys)});
    for (std::string& one : keys->left_out) {
      if (std::ranges::count(made->left_out_, one) == 0) made->left_out_.push_back(std::move(one));
    }
  }
  made->grants_ = texts.grants;
  return made;
}

Result<Principal> AccessRules::by_token(std::string_view text, tls::WallTime now) const {
  const Result<tls::Token> token = tls::token_of(text);
  if (!token) return token.error();
  if (token->issuer == tls::kOwnIssuer) return own(*token, now);
  return of_issuers(*token, now);
}

/// Checks a token of another issuer. One issuer may have several entries, with audiences or keys of
/// their own: the first one counts that the token is good for and that has a grant for it.
Result<Principal> AccessRules::of_issuers(const tls::Token& token, tls::WallTime now) const {
  std::optional<Principal> found;
  std::optional<Failure> why;
  std::string audiences;
  for (const Issuer& issuer : issuers_) {
    if (issuer.entry.issuer != token.issuer) continue;
    if (std::ranges::count(token.audiences, issuer.entry.audience) == 0) {
      const std::string one = "\"" + printable(issuer.entry.audience, limits::kNameBytes) + "\"";
      if (audiences.find(one) == audiences.npos && audiences.size() < kAudiencesShown) {
        audiences += (audiences.empty() ? "" : " or ") + one;
      }
      continue;
    }
    Result<Principal> one = of_issuer(issuer, token, now);
    if (!one) {
      why = one.error();
      continue;
    }
    const bool has_grant = one->roles.anywhere() != core::Role::none;
    if (has_grant || !found) found = std::move(*one);
    if (has_grant) break;
  }
  if (found) return std::move(*found);
  if (why) return *why;
  if (audiences.empty()) return tls::bad_token("is of an issuer that this daemon does not know");
  return failure(Code::unauthenticated,
                 "the token is not for audience {}; ask its issuer for one that is", audiences);
}

/// Checks a token of c10ddctl.
Result<Principal> AccessRules::own(const tls::Token& token, tls::WallTime now) const {
  const Result<tls::OwnToken> said = tls::own_token(token);
  if (!said) return said.error();
  const auto ca = cas_.find(said->ca_hash);
  if (ca == cas_.end()) return tls::bad_token("is of another cluster's CA");
  if (Result<void> good = tls::check(token, ca->second, now); !good) return good.error();
  if (grants_.revoked.contains(said->name)) return tls::bad_token("is revoked");
  const std::string name = principal_name("", said->name);
  Principal found{name, core::JobRoles(name), said->ends, former_.contains(said->ca_hash)};
  for (const std::string& jobs : said->jobs) {
    const Result<core::JobPattern> pattern = core::JobPattern::of(jobs);
    if (!pattern) return tls::bad_token("has a pattern of jobs that cannot be read");
    found.roles.add(*pattern, core::role_named(said->role));
  }
  return found;
}

/// Checks a token of another issuer by one entry, whose audience it is for.
Result<Principal> AccessRules::of_issuer(const Issuer& issuer, const tls::Token& token,
                                         tls::WallTime now) const {
  if (token.subject.empty()) return tls::bad_token("names nobody");
  Failure why = tls::bad_token("is not signed by a key that this daemon trusts");
  for (const tls::NamedKey& key : issuer.keys) {
    const bool may_be = token.key_id.empty() || key.id.empty() || key.id == token.key_id;
    if (!may_be || key.how != token.how) continue;
    const Result<void> good = tls::check(token, key.key, now);
    if (!good) {
      why = good.error();
      continue;
    }
    const std::string name = issuer.entry.name + ":" + token.subject;
    return Principal{principal_name(issuer.entry.name, token.subject),
                     grants_.grants.roles_of(name), *token.ends};
  }
  return why;
}

Result<Principal> AccessRules::by_certificate(const tls::Certificate& shown,
                                              tls::WallTime now) const {
  if (now > shown.ends()) {
    return failure(Code::unauthenticated,
                   "the certificate of this client has expired; renew the file of C10DD_CERT_FILE");
  }
  for (const std::string& uri : shown.uris()) {
    const std::string name = "cert:" + uri;
    core::JobRoles roles = grants_.grants.roles_of(name);
    if (roles.anywhere() == core::Role::none) continue;
    return Principal{principal_name("cert", uri), std::move(roles), shown.ends()};
  }
  return failure(
      Code::unauthenticated,
      "no grant names the certificate of this client; set C10DD_TOKEN_FILE to a token of "
      "this cluster");
}

}  // namespace c10dd::daemon
