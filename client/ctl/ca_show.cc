// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ca_show.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <utility>

#include "client/ctl/ca.h"
#include "client/ctl/ca_folder.h"
#include "client/ctl/page.h"
#include "client/ctl/watch.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "protocol/tls/context.h"
#include "protocol/tls/token.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;

/// Returns a time span in the unit in which people count it.
std::string span_text(std::chrono::seconds span) {
  if (span >= 2 * kDay) return format("{} days", span / kDay);
  if (span >= std::chrono::hours(2)) return format("{} hours", span / std::chrono::hours(1));
  return format("{} s", span.count());
}

std::string state_text(std::optional<tls::WallTime> begins, tls::WallTime ends, tls::WallTime now) {
  if (ends <= now) return format("expired {} ago", span_text(now - ends));
  if (begins && *begins > now)
    return format("not valid yet; begins in {}", span_text(*begins - now));
  return format("valid for {}", span_text(ends - now));
}

json::array printable_list(const std::vector<std::string>& all) {
  json::array list;
  for (const std::string& one : all) list.emplace_back(printable_name(one));
  return list;
}

void add_times(json::object& item, std::optional<tls::WallTime> begins, tls::WallTime ends,
               tls::WallTime now) {
  if (begins) item["begins"] = time_text(*begins);
  item["ends"] = time_text(ends);
  item["expired"] = ends <= now;
  item["state"] = state_text(begins, ends, now);
}

json::object item_of(const tls::Certificate& of, const std::string& file, tls::WallTime now) {
  json::object item = {{"file", printable_name(file)},
                       {"kind", of.is_ca() ? "certificate of a CA" : "certificate of a daemon"},
                       {"name", printable_name(of.name())}};
  if (!of.is_ca()) item["hosts"] = printable_list(of.hosts());
  add_times(item, of.begins(), of.ends(), now);
  if (of.is_ca()) item["ca_hash"] = hash_text(of.key().hash());
  return item;
}

Result<json::array> items_of_token(const std::string& text, const std::string& file,
                                   tls::WallTime now) {
  const Result<tls::Token> token = tls::token_of(text);
  if (!token) {
    return failure(Code::invalid_argument,
                   "{} is neither a certificate nor a token; give one of these, or the folder of a "
                   "CA or a daemon",
                   file);
  }
  json::object item = {{"file", printable_name(file)}, {"kind", "token"}};
  const Result<tls::OwnToken> own = tls::own_token(*token);
  item["name"] = printable_name(token->subject);
  if (own) {
    item["role"] = own->role;
    item["jobs"] = printable_list(own->jobs);
    add_times(item, own->begins, own->ends, now);
    item["ca_hash"] = hash_text(own->ca_hash);
  } else {
    item["issuer"] = printable_name(token->issuer);
    item["audiences"] = printable_list(token->audiences);
    if (token->ends) {
      add_times(item, token->begins, *token->ends, now);
    } else {
      item["state"] = "never expires, so every daemon refuses it";
    }
  }
  item["signature"] = "not checked";
  return json::array{std::move(item)};
}

Result<json::array> items_of_file(const std::string& path, tls::WallTime now) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    if (text.error().code != Code::not_found) return text.error();
    return failure(Code::invalid_argument, "there is no file or folder {}; check the path", path);
  }
  if (text->find("-----BEGIN ") == std::string::npos) return items_of_token(*text, path, now);
  const bool has_certificate = text->find("-----BEGIN CERTIFICATE") != std::string::npos;
  if (!has_certificate && text->find("PRIVATE KEY-----") != std::string::npos) {
    return failure(Code::invalid_argument,
                   "{} is a private key, which c10ddctl does not show; give its certificate", path);
  }
  const auto certificates = tls::certificates_of(*text, path);
  if (!certificates) {
    return failure(Code::invalid_argument, "{}; give another file", certificates.error().detail);
  }
  json::array items;
  for (const tls::Certificate& one : *certificates) items.push_back(item_of(one, path, now));
  return items;
}

/// Says whether a key belongs to the first certificate of a file.
std::string key_state(const std::string& certificate_path, const std::string& key_path) {
  const Result<std::string> certificate = read_file(certificate_path);
  const Result<std::string> key = read_file(key_path);
  if (!key) return key.error().code == Code::not_found ? "missing" : key.error().detail;
  if (!certificate) return certificate.error().detail;
  const auto both = tls::identity_of(*certificate, certificate_path, *key, key_path);
  return both ? "fits" : "does not fit, because " + both.error().detail;
}

/// Returns the hash of the CA in ca.crt of a folder that has signed the first certificate of
/// tls.crt.
std::string signer_of(const std::string& folder) {
  const auto read = [&](const char* name) -> std::vector<tls::Certificate> {
    const std::string path = folder + name;
    const Result<std::string> text = read_file(path);
    const auto all = text ? tls::certificates_of(*text, path) : text.error();
    return all ? *all : std::vector<tls::Certificate>();
  };
  const std::vector<tls::Certificate> own = read("/tls.crt");
  for (const tls::Certificate& ca : read("/ca.crt")) {
    if (!own.empty() && own.front().is_signed_by(ca.key())) return hash_text(ca.key().hash());
  }
  return "none of ca.crt; issue it again with c10ddctl ca daemon";
}

Result<json::array> items_of_folder(const std::string& path, tls::WallTime now) {
  json::array all;
  for (const std::string name : {"ca", "tls"}) {
    const std::string certificate = format("{}/{}.crt", path, name);
    const std::string key = format("{}/{}.key", path, name);
    if (!exists(certificate)) continue;
    Result<json::array> items = items_of_file(certificate, now);
    if (!items) return items.error();
    json::object& first = items->front().as_object();
    if (name == "tls") first["signed_by"] = signer_of(path);
    if (name == "tls" || exists(key)) first["key"] = key_state(certificate, key);
    for (json::value& item : *items) all.push_back(std::move(item));
  }
  if (!all.empty()) return all;
  return failure(Code::invalid_argument,
                 "{} has neither ca.crt nor tls.crt; give the folder of a CA or a daemon", path);
}

std::string text_of_item(const json::object& item) {
  std::string text;
  for (const auto& [name, value] : item) {
    if (name == "expired") continue;  // `state` says it for people
    std::string label(name);
    std::ranges::replace(label, '_', ' ');
    std::string shown;
    if (value.is_array()) {
      for (const json::value& one : value.get_array()) {
        shown += (shown.empty() ? "" : ", ") + cell(one, "");
      }
    } else {
      shown = cell(value, "");
    }
    text += format("{}: {}\n", label, shown);
  }
  return text;
}

}  // namespace

Outcome show_paths(const std::vector<std::string>& paths, bool json, tls::WallTime now) {
  json::array all;
  for (const std::string& path : paths) {
    const auto items = is_folder(path) ? items_of_folder(path, now) : items_of_file(path, now);
    if (!items) return {exit_code::kUsage, "", items.error().detail};
    all.insert(all.end(), items->begin(), items->end());
  }
  if (json) {
    const json::value page = {{"items", std::move(all)}};
    return {0, c10dd::json::text_of(page) + "\n", {}};
  }
  std::string text;
  for (const json::value& item : all) {
    text += (text.empty() ? "" : "\n") + text_of_item(item.get_object());
  }
  return {0, text, {}};
}

Outcome ca_show(const Arguments& of, tls::WallTime now) {
  return show_paths(of.operands, of.json, now);
}

}  // namespace c10dd::ctl
