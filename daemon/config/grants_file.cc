// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/grants_file.h"

#include <algorithm>
#include <optional>
#include <span>

#include "daemon/config/toml_text.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/nearest.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kMostEntries = 4'096;  // grants, issuers or revoked names
constexpr std::size_t kNamedBytes = 32;      // of an unknown key, which may be a misplaced secret
constexpr std::string_view kCertificates = "cert:";

/// A table of the file, with the words for failures.
class Entry {
 public:
  Entry(const toml::table& table, std::string file) : table_(table), file_(std::move(file)) {}

  /// Fails if the table has another key than these.
  Result<void> only(std::span<const std::string> known) const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::ranges::count(known, name) > 0) continue;
      const std::string near = nearest(name, known);
      std::string hint = near.empty() ? "" : "; did you mean " + near + "?";
      return wrong(key.source(),
                   format("unknown key \"{}\"{}", printable(name, kNamedBytes), hint));
    }
    return {};
  }
  Result<std::string> text(const char* name) const {
    const toml::node* const node = table_.get(name);
    if (node == nullptr) return wrong(table_.source(), format("{} is missing", name));
    if (!node->is_string()) return wrong(node->source(), format("{} must be a string", name));
    std::string text = *node->value<std::string>();
    if (!text.empty() && text.size() <= limits::kNameBytes * 4) return text;
    return wrong(node->source(), format("{} has {} bytes, but needs 1 to {}", name, text.size(),
                                        limits::kNameBytes * 4));
  }
  Result<std::vector<std::string>> texts(const char* name) const {
    const toml::node* const node = table_.get(name);
    if (node == nullptr) return wrong(table_.source(), format("{} is missing", name));
    const toml::array* const list = node->as_array();
    const bool good = list != nullptr && (list->empty() || list->is_homogeneous<std::string>());
    if (!good) return wrong(node->source(), format("{} must be a list of strings", name));
    if (list->size() > kMostEntries) {
      return wrong(node->source(),
                   format("{} has {} entries, limit {}", name, list->size(), kMostEntries));
    }
    std::vector<std::string> all;
    for (const toml::node& one : *list) all.push_back(*one.value<std::string>());
    return all;
  }
  Failure wrong(const toml::source_region& at, std::string_view what) const {
    return failure(Code::invalid_argument, "grants {}:{}: {}", file_, at.begin.line, what);
  }
  Failure wrong(std::string_view what) const { return wrong(table_.source(), what); }
  /// Returns the tables of [[name]].
  Result<std::vector<Entry>> tables(const char* name) const {
    std::vector<Entry> all;
    const toml::node* const node = table_.get(name);
    if (node == nullptr) return all;
    const toml::array* const list = node->as_array();
    if (list == nullptr || !list->is_array_of_tables()) {
      return wrong(node->source(), format("{} must be tables; begin each with [[{}]]", name, name));
    }
    if (list->size() > kMostEntries) {
      return wrong(node->source(),
                   format("{} tables [[{}]], limit {}", list->size(), name, kMostEntries));
    }
    for (const toml::node& one : *list) all.emplace_back(*one.as_table(), file_);
    return all;
  }
  bool has(const char* name) const { return table_.contains(name); }

 private:
  const toml::table& table_;
  std::string file_;
};

Result<IssuerEntry> issuer_in(const Entry& entry) {
  static const std::vector<std::string> kKeys = {"name", "issuer", "audience", "jwks"};
  if (Result<void> good = entry.only(kKeys); !good) return good.error();
  IssuerEntry issuer;
  for (const auto& [key, member] : {std::pair("name", &IssuerEntry::name),
                                    {"issuer", &IssuerEntry::issuer},
                                    {"audience", &IssuerEntry::audience},
                                    {"jwks", &IssuerEntry::jwks}}) {
    Result<std::string> text = entry.text(key);
    if (!text) return text.error();
    issuer.*member = std::move(*text);
  }
  const bool reserved = issuer.name == "cert" || issuer.name.find(':') != std::string::npos;
  if (!reserved) return issuer;
  return entry.wrong("the name of an issuer must not be cert, and must not contain a colon");
}

Result<core::Grant> grant_in(const Entry& entry) {
  static const std::vector<std::string> kKeys = {"who", "role", "jobs"};
  if (Result<void> good = entry.only(kKeys); !good) return good.error();
  Result<std::string> who = entry.text("who");
  if (!who) return who.error();
  const Result<std::string> role = entry.text("role");
  if (!role) return role.error();
  Result<std::vector<std::string>> jobs = entry.texts("jobs");
  if (!jobs) return jobs.error();
  core::Grant grant{std::move(*who), core::role_named(*role), std::move(*jobs)};
  const Result<core::Grants> alone = core::Grants::of({grant});
  if (alone) return grant;
  // Without the number of the grant: the line says which one it is.
  const std::string& text = alone.error().detail;
  return entry.wrong(text.substr(text.find("): ") + 3));
}

/// Returns whether a grant is about an issuer of the file, or about certificates.
bool is_known(const core::Grant& grant, const std::vector<IssuerEntry>& issuers) {
  if (grant.who.starts_with(kCertificates)) return true;
  return std::ranges::any_of(
      issuers, [&](const IssuerEntry& one) { return grant.who.starts_with(one.name + ":"); });
}

}  // namespace

Result<GrantsFile> grants_in(std::string_view text, const std::string& path) {
  const Result<toml::table> table =
      parse_toml(text, "grants " + path, "use [[issuer]] and [[grant]]");
  if (!table) return table.error();
  const Entry file(*table, path);
  static const std::vector<std::string> kKeys = {"issuer", "grant", "revoked"};
  if (Result<void> good = file.only(kKeys); !good) return good.error();
  GrantsFile found;
  const Result<std::vector<Entry>> issuers = file.tables("issuer");
  if (!issuers) return issuers.error();
  for (const Entry& entry : *issuers) {
    Result<IssuerEntry> issuer = issuer_in(entry);
    if (!issuer) return issuer.error();
    if (std::ranges::count(found.issuers, issuer->name, &IssuerEntry::name) > 0) {
      return entry.wrong(format("a second issuer \"{}\"", printable_name(issuer->name)));
    }
    found.issuers.push_back(std::move(*issuer));
  }
  const Result<std::vector<Entry>> grants = file.tables("grant");
  if (!grants) return grants.error();
  std::vector<core::Grant> all;
  for (const Entry& entry : *grants) {
    Result<core::Grant> grant = grant_in(entry);
    if (!grant) return grant.error();
    if (!is_known(*grant, found.issuers)) {
      return entry.wrong(
          "who must begin with the name of an [[issuer]] and a colon, or with cert:");
    }
    found.asks_for_certificates =
        found.asks_for_certificates || grant->who.starts_with(kCertificates);
    all.push_back(std::move(*grant));
  }
  found.grants = *core::Grants::of(std::move(all));
  if (!file.has("revoked")) return found;
  const Result<std::vector<std::string>> revoked = file.texts("revoked");
  if (!revoked) return revoked.error();
  found.revoked = {revoked->begin(), revoked->end()};
  return found;
}

}  // namespace c10dd::daemon
