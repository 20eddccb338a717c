// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ca_folder.h"

#include <algorithm>

#include "client/ctl/watch.h"
#include "protocol/format.h"
#include "protocol/parse.h"
#include "protocol/tls/context.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

constexpr std::size_t kMostHosts = 256;  // of one certificate
constexpr std::size_t kHashShown = 8;    // bytes of a hash in a name, as digits
constexpr std::size_t kTtlShown = 40;    // bytes of a wrong --ttl

Result<std::string> read_of_ca(const std::string& folder, const char* name) {
  Result<std::string> text = read_file(folder + "/" + name);
  if (text || text.error().code != Code::not_found) return text;
  return failure(Code::invalid_argument,
                 "{} has no {}; give the folder of a CA, which c10ddctl ca init makes", folder,
                 name);
}

/// Reads a time with d for days, or one that parse_duration() reads.
std::optional<std::chrono::seconds> read_lifetime(const std::string& text,
                                                  std::chrono::seconds most) {
  std::chrono::duration<double> found{0};
  if (text.ends_with('d')) {
    const auto days = parse_number<double>(std::string_view(text).substr(0, text.size() - 1));
    if (!days) return std::nullopt;
    found = std::chrono::duration<double>(*days * std::chrono::seconds(kDay).count());
  } else {
    const auto time = parse_duration(text, most);
    if (!time) return std::nullopt;
    found = *time;
  }
  if (!(found >= std::chrono::seconds(1) && found <= most)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::seconds>(found);
}

Result<void> check_time(const CaFolder& ca, tls::WallTime now) {
  const tls::Certificate& own = ca.certificate;
  if (own.ends() <= now) {
    return failure(Code::invalid_argument,
                   "the CA in {} has expired at {}; make a new one in another folder with c10ddctl "
                   "ca init",
                   ca.path, time_text(own.ends()));
  }
  if (own.begins() <= now) return {};
  return failure(Code::invalid_argument,
                 "the CA in {} begins at {}, and here it is {}; set the clock of this machine",
                 ca.path, time_text(own.begins()), time_text(now));
}

/// Returns the certificates of a file; none if there is no file.
Result<std::vector<tls::Certificate>> certificates_at(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (text) return tls::certificates_of(*text, path);
  if (text.error().code == Code::not_found) return std::vector<tls::Certificate>();
  return text.error();
}

/// Reads ca.crt and the key that belongs to it. While a renewal has replaced one of the two only,
/// that is the key in next.key.
Result<CaFolder> read_pair(const std::string& path) {
  const Result<std::string> certificate = read_of_ca(path, "ca.crt");
  if (!certificate) return certificate.error();
  std::optional<Failure> why;
  for (const bool is_next : {false, true}) {
    const std::string key_path = path + (is_next ? "/next.key" : "/ca.key");
    if (is_next && !exists(key_path)) break;
    if (Result<void> good = check_private(key_path); !good) return good.error();
    const Result<std::string> key = is_next ? read_file(key_path) : read_of_ca(path, "ca.key");
    if (!key) return key.error();
    const auto read = tls::identity_of(*certificate, path + "/ca.crt", *key, key_path);
    if (read) {
      return CaFolder{.path = path,
                      .certificate = read->chain.front(),
                      .key = read->key,
                      .others = {read->chain.begin() + 1, read->chain.end()},
                      .has_next_key = is_next};
    }
    if (!why) why = read.error();
  }
  return failure(Code::invalid_argument, "{}; restore both files of the CA from a copy",
                 why->detail);
}

/// Adds what a renewal has left in the folder.
Result<void> read_renewal(CaFolder& ca) {
  auto crosses = certificates_at(ca.path + "/cross.crt");
  if (!crosses) return crosses.error();
  for (tls::Certificate& one : *crosses) {
    const auto signs = [&](const tls::Certificate& by) { return one.is_signed_by(by.key()); };
    if (one.key().is_same(ca.key) && std::ranges::any_of(ca.others, signs)) {
      ca.crosses.push_back(std::move(one));
    }
  }
  auto retired = certificates_at(ca.path + "/retired.crt");
  if (!retired) return retired.error();
  ca.retired = std::move(*retired);
  return {};
}

}  // namespace

bool CaFolder::is_former(const tls::Certificate& one) const {
  const tls::Key its = one.key();
  return std::ranges::any_of(
      crosses, [&](const tls::Certificate& cross) { return cross.is_signed_by(its); });
}

CaFolder new_ca(const std::string& path, tls::WallTime now) {
  const tls::Key key = tls::Key::make();
  const std::string digits = hash_text(key.hash()).substr(std::string_view("sha256:").size());
  return {.path = path,
          .certificate = tls::make_ca(
              {"c10dd CA " + digits.substr(0, kHashShown), {}, now, now + kCaLife}, key),
          .key = key};
}

Result<CaFolder> read_ca(const std::string& path, tls::WallTime now) {
  if (!is_folder(path)) {
    return failure(Code::invalid_argument,
                   "there is no folder {}; make a CA in it with c10ddctl ca init", path);
  }
  constexpr int kTries = 3;  // a renewal may replace the files meanwhile
  Result<CaFolder> read = read_pair(path);
  for (int i = 1; i < kTries && !read; ++i) read = read_pair(path);
  if (!read) return read;
  CaFolder& ca = *read;
  if (!ca.certificate.is_ca()) {
    return failure(Code::invalid_argument,
                   "{}/ca.crt is not the certificate of a CA; give the folder of a CA, which "
                   "c10ddctl ca init makes",
                   path);
  }
  if (!ca.key.fits(tls::Signature::es256)) {
    return failure(Code::invalid_argument,
                   "the key in {} is not on the curve P-256, by which tokens are signed; make a CA "
                   "with c10ddctl ca init",
                   path + "/ca.key");
  }
  if (Result<void> good = check_time(ca, now); !good) return good.error();
  if (Result<void> good = read_renewal(ca); !good) return good.error();
  return read;
}

Result<tls::WallTime> end_of(const std::string& ttl, Lifetime limits, const CaFolder& ca,
                             tls::WallTime now) {
  const tls::WallTime last = ca.certificate.ends();
  if (ttl.empty()) return std::min(now + limits.usual, last);
  const auto life = read_lifetime(ttl, limits.most);
  if (!life) {
    return failure(Code::invalid_argument,
                   "--ttl is \"{}\", but must be a time from 1s to {}d; write for example 12h or "
                   "30d",
                   printable(ttl, kTtlShown), limits.most / kDay);
  }
  if (now + *life <= last) return now + *life;
  return failure(Code::invalid_argument,
                 "--ttl is \"{}\", which ends after the CA itself, at {}; give at most {}s",
                 printable(ttl, kTtlShown), time_text(last), (last - now).count());
}

std::vector<std::string> hosts_in(const std::vector<std::string>& options) {
  std::vector<std::string> hosts;
  for (std::string_view rest : options) {
    while (true) {
      const std::size_t comma = rest.find(',');
      const std::string host(rest.substr(0, comma));
      if (std::ranges::count(hosts, host) == 0) hosts.push_back(host);
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return hosts;
}

std::string pem_of(const std::vector<tls::Certificate>& all) {
  std::string text;
  for (const tls::Certificate& one : all) text += one.pem();
  return text;
}

Result<std::vector<SecretFile>> daemon_files(const std::string& folder, const CaFolder& ca,
                                             const std::vector<std::string>& hosts,
                                             tls::WallTime now, tls::WallTime ends,
                                             const std::vector<tls::Certificate>& known) {
  if (hosts.size() > kMostHosts) {
    return failure(Code::invalid_argument,
                   "a certificate for {} hosts was asked for, limit {}; make several, or give "
                   "*.DOMAIN",
                   hosts.size(), kMostHosts);
  }
  const tls::Key key = tls::Key::make();
  const std::string name = hosts.empty() ? "" : hosts.front();
  const auto made = tls::make_server({name, hosts, now, ends}, key, ca.certificate, ca.key);
  if (!made) return made.error();
  std::vector<tls::Certificate> cas = {ca.certificate};
  cas.insert(cas.end(), ca.others.begin(), ca.others.end());
  const std::vector<tls::Certificate> own = cas;
  for (const tls::Certificate& one : known) {
    const auto is_same = [&](const tls::Certificate& other) {
      return other.key().is_same(one.key());
    };
    if (std::ranges::none_of(own, is_same) && std::ranges::none_of(ca.retired, is_same)) {
      cas.push_back(one);
    }
  }
  return std::vector<SecretFile>{{folder + "/ca.crt", pem_of(cas)},
                                 {folder + "/tls.key", key.private_pem()},
                                 {folder + "/tls.crt", made->pem() + pem_of(ca.crosses)}};
}

std::string hash_text(const std::string& hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "sha256:";
  for (const unsigned char byte : hash) {
    text += kDigits[byte / 16U];
    text += kDigits[byte % 16U];
  }
  return text;
}

}  // namespace c10dd::ctl
