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

}  // namespace

CaFolder new_ca(const std::string& path, tls::WallTime now) {
  const tls::Key key = tls::Key::make();
  const std::string digits = hash_text(key.hash()).substr(std::string_view("sha256:").size());
  return {path,
          tls::make_ca({"c10dd CA " + digits.substr(0, kHashShown), {}, now, now + kCaLife}, key),
          key};
}

Result<CaFolder> read_ca(const std::string& path, tls::WallTime now) {
  if (!is_folder(path)) {
    return failure(Code::invalid_argument,
                   "there is no folder {}; make a CA in it with c10ddctl ca init", path);
  }
  const Result<std::string> certificate = read_of_ca(path, "ca.crt");
  if (!certificate) return certificate.error();
  const std::string key_path = path + "/ca.key";
  if (Result<void> good = check_private(key_path); !good) return good.error();
  const Result<std::string> key = read_of_ca(path, "ca.key");
  if (!key) return key.error();
  const auto read = tls::identity_of(*certificate, path + "/ca.crt", *key, key_path);
  if (!read) {
    return failure(Code::invalid_argument, "{}; restore both files of the CA from a copy",
                   read.error().detail);
  }
  const CaFolder ca{path, read->chain.front(), read->key};
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
                   key_path);
  }
  if (Result<void> good = check_time(ca, now); !good) return good.error();
  return ca;
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

Result<std::vector<SecretFile>> daemon_files(const std::string& folder, const CaFolder& ca,
                                             const std::vector<std::string>& hosts,
                                             tls::WallTime now, tls::WallTime ends) {
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
  return std::vector<SecretFile>{{folder + "/ca.crt", ca.certificate.pem()},
                                 {folder + "/tls.key", key.private_pem()},
                                 {folder + "/tls.crt", made->pem()}};
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
