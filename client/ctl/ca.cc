// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/ca.h"

#include <algorithm>
#include <boost/json/value.hpp>

#include "client/ctl/ca_folder.h"
#include "client/ctl/ca_show.h"
#include "client/ctl/secret_files.h"
#include "client/ctl/watch.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/job_pattern.h"
#include "protocol/json_text.h"
#include "protocol/names.h"
#include "protocol/nearest.h"
#include "protocol/tls/token.h"
#include "protocol/utf8.h"

namespace c10dd::ctl {
namespace {

constexpr Lifetime kDaemonLife{365 * kDay, kCaLife};
constexpr Lifetime kTokenLife{30 * kDay, 400 * kDay};
constexpr std::chrono::hours kClockBehind{1};  // by so much a daemon's clock may be behind

Failure wrong(std::string text) { return failure(Code::invalid_argument, std::move(text)); }

Outcome ended(const Failure& why) {
  const bool on_disk = why.code == Code::unavailable;
  return {on_disk ? exit_code::kCannotCreate : exit_code::kUsage, "", why.detail};
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string listed(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : ", ") + one;
  return text;
}

Result<void> check_new_folder(const std::string& folder) {
  if (exists(folder) && !is_folder(folder)) {
    return wrong(format("{} is not a folder; give the path of a folder", folder));
  }
  return check_own(folder);
}

Result<void> check_no_ca(const std::string& folder) {
  if (exists(folder + "/ca.crt") || exists(folder + "/ca.key")) {
    return wrong(
        format("{} already has a CA; c10ddctl ca daemon {} makes the files of another "
               "daemon, and c10ddctl ca init makes a new CA only in another folder",
               folder, folder));
  }
  if (!exists(folder + "/daemon")) return {};
  return wrong(format("{}/daemon exists already; give another folder, or remove it", folder));
}

Result<void> write_new(const std::string& folder, const std::vector<SecretFile>& files,
                       NewFiles& into) {
  if (!is_folder(folder)) {
    if (Result<void> made = into.add_folder(folder); !made) return made;
  }
  for (const SecretFile& file : files) {
    if (Result<void> made = into.add(file); !made) return made;
  }
  return {};
}

/// Writes ca.crt last: without it no folder has a CA.
Result<void> write_ca(const CaFolder& ca, const std::vector<SecretFile>& of_daemon) {
  NewFiles made;
  const std::vector<SecretFile> own = {{ca.path + "/ca.key", ca.key.private_pem()},
                                       {ca.path + "/ca.crt", ca.certificate.pem()}};
  if (Result<void> good = write_new(ca.path, {}, made); !good) return good;
  if (Result<void> good = write_new(ca.path + "/daemon", of_daemon, made); !good) return good;
  if (Result<void> good = write_new(ca.path, own, made); !good) return good;
  made.keep();
  return {};
}

/// Returns the hosts of the certificate that is to be renewed.
Result<std::vector<std::string>> hosts_of_old(const std::string& folder) {
  const std::string path = folder + "/tls.crt";
  const Result<std::string> text = read_file(path);
  if (!text && text.error().code == Code::not_found) {
    return wrong("c10ddctl ca daemon needs a host; give --host HOST");
  }
  if (!text) return text.error();
  const auto old = tls::certificates_of(*text, path);
  if (!old) return wrong(old.error().detail + "; give --host HOST to replace it");
  return old->front().hosts();
}

/// Returns the CAs that a daemon trusts already. Fails unless this one or one that it has replaced
/// is among them: so its clients go on trusting the daemon.
Result<std::vector<tls::Certificate>> known_cas(const std::string& folder, const CaFolder& ca) {
  const std::string path = folder + "/ca.crt";
  const Result<std::string> text = read_file(path);
  auto known = text ? tls::certificates_of(*text, path) : text.error();
  const auto is_own = [&](const tls::Certificate& one) {
    const auto is_it = [&](const tls::Certificate& own) { return own.key().is_same(one.key()); };
    return is_it(ca.certificate) || std::ranges::any_of(ca.others, is_it) ||
           std::ranges::any_of(ca.retired, is_it);
  };
  if (known && std::ranges::any_of(*known, is_own)) return known;
  return wrong(
      format("{} has files of a daemon, but its ca.crt does not have the CA in {}; give "
             "another folder, or put the certificate of this CA into {}",
             folder, ca.path, path));
}

struct MadeDaemon {
  std::vector<std::string> hosts;
  tls::WallTime ends;
  bool renewed;
};

Result<MadeDaemon> make_daemon(const CaFolder& ca, const std::string& folder, const CaArguments& of,
                               tls::WallTime now) {
  MadeDaemon made{hosts_in(of.hosts), {}, false};
  for (const char* name : {"/ca.crt", "/tls.crt", "/tls.key"}) {
    made.renewed = made.renewed || exists(folder + name);
  }
  if (made.hosts.empty()) {
    Result<std::vector<std::string>> old = hosts_of_old(folder);
    if (!old) return old.error();
    made.hosts = std::move(*old);
  }
  const Result<tls::WallTime> ends = end_of(of.ttl, kDaemonLife, ca, now);
  if (!ends) return ends.error();
  made.ends = *ends;
  std::vector<tls::Certificate> known;
  if (made.renewed) {
    auto found = known_cas(folder, ca);
    if (!found) return found.error();
    known = std::move(*found);
  }
  const auto files = daemon_files(folder, ca, made.hosts, now, *ends, known);
  if (!files) return files.error();
  if (made.renewed) {
    Result<void> replaced = replace_files(*files);
    return replaced ? Result<MadeDaemon>(made) : replaced.error();
  }
  NewFiles written;
  if (Result<void> good = write_new(folder, *files, written); !good) return good.error();
  written.keep();
  return made;
}

Result<void> check_token(const CaArguments& of) {
  if (const Result<void> good = check_name("principal", of.name); !good) {
    return wrong("--name is wrong, because " + good.error().detail);
  }
  if (of.name.find(':') != std::string::npos) {
    return wrong(format(
        "--name is \"{}\", but must not contain a colon: such names are those of issuers and "
        "certificates",
        of.name));
  }
  if (of.jobs.empty()) {
    return wrong(
        "a token needs a pattern of jobs; give --jobs 'llm-*', or --jobs '*' for all jobs");
  }
  for (const std::string& jobs : of.jobs) {
    const Result<JobPattern> pattern = JobPattern::of(jobs);
    if (!pattern) return wrong("--jobs is wrong, because " + pattern.error().detail);
    // A blank may stand before the *.
    const bool begin = jobs.ends_with('*');
    const Result<void> good =
        check_name("job", begin ? jobs.substr(0, jobs.size() - 1) + "x" : jobs);
    if (!good) return wrong("--jobs is wrong, because " + good.error().detail);
  }
  if (std::ranges::count(tls::kRoles, of.role) > 0) return {};
  const std::vector<std::string> roles(tls::kRoles.begin(), tls::kRoles.end());
  const std::string near = nearest(of.role, roles);
  return wrong(format("--role is \"{}\", but must be one of {}{}", printable_name(of.role),
                      listed(roles), near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

/// Checks that a file has an older token of the same name, so that no other file is lost.
Result<void> check_old_token(const std::string& path, const std::string& name) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  const Result<tls::Token> token = tls::token_of(*text);
  const Result<tls::OwnToken> own = token ? tls::own_token(*token) : token.error();
  if (!own) {
    return wrong(
        format("{} exists and is not a token of c10ddctl; give another --out, or remove it", path));
  }
  if (own->name == name) return {};
  return wrong(format("{} has the token of {}, not of {}; give another --out, or remove it", path,
                      printable_name(own->name), name));
}

Result<void> write_token(const std::string& path, const std::string& name,
                         const std::string& token) {
  const SecretFile file{path, token + "\n"};
  if (exists(path)) {
    if (Result<void> same = check_old_token(path, name); !same) return same;
    return replace_files({file});
  }
  NewFiles made;
  if (Result<void> good = made.add(file); !good) return good;
  made.keep();
  return {};
}

}  // namespace

Outcome ca_init(const Arguments& of, tls::WallTime now) {
  const std::string folder = without_slash(of.operands.at(0));
  std::vector<std::string> hosts = of.ca.hosts;
  if (hosts.empty()) {
    return ended(
        wrong("c10ddctl ca init needs a host; give --host HOST, the name by which trainers "
              "reach the daemon"));
  }
  hosts.insert(hosts.end(), {"localhost", "127.0.0.1", "::1"});
  hosts = hosts_in(hosts);
  if (Result<void> good = check_new_folder(folder); !good) return ended(good.error());
  if (Result<void> good = check_no_ca(folder); !good) return ended(good.error());
  const CaFolder ca = new_ca(folder, now);
  const tls::WallTime ends = now + kDaemonLife.usual;
  const auto files = daemon_files(folder + "/daemon", ca, hosts, now, ends);
  if (!files) return ended(files.error());
  if (Result<void> good = write_ca(ca, *files); !good) return ended(good.error());
  if (of.json) return show_paths({folder, folder + "/daemon"}, true, now);
  return {0,
          format("made a CA in {}, valid until {}; keep ca.key there secret, and copy it to no "
                 "daemon\n"
                 "made the files of a daemon in {}/daemon, valid until {}, for {}\n"
                 "next, start it with: c10dd --listen 0.0.0.0:29500 --tls {}/daemon\n"
                 "and make tokens with: c10ddctl ca token {} --name NAME --jobs PATTERN --out "
                 "FILE\n",
                 folder, time_text(ca.certificate.ends()), folder, time_text(ends), listed(hosts),
                 folder, folder),
          {}};
}

Outcome ca_daemon(const Arguments& of, tls::WallTime now) {
  const std::string folder = without_slash(of.ca.out);
  if (folder.empty()) {
    return ended(wrong("c10ddctl ca daemon needs a folder for the files; give --out FOLDER"));
  }
  const Result<CaFolder> ca = read_ca(without_slash(of.operands.at(0)), now);
  if (!ca) return ended(ca.error());
  if (Result<void> good = check_new_folder(folder); !good) return ended(good.error());
  if (exists(folder + "/ca.key")) {
    return ended(
        wrong(format("{} has the key of a CA, which a daemon must not have; give another "
                     "folder for the files of the daemon",
                     folder)));
  }
  const Result<MadeDaemon> made = make_daemon(*ca, folder, of.ca, now);
  if (!made) return ended(made.error());
  if (of.json) return show_paths({folder}, true, now);
  std::string text = format("{} the files of a daemon in {}, valid until {}, for {}\n",
                            made->renewed ? "renewed" : "made", folder, time_text(made->ends),
                            listed(made->hosts));
  text += made->renewed
              ? "a daemon that runs with them reads them within seconds\n"
              : format("next, start it with: c10dd --listen 0.0.0.0:29500 --tls {}\n", folder);
  return {0, text, {}};
}

Outcome ca_token(const Arguments& of, tls::WallTime now) {
  if (Result<void> good = check_token(of.ca); !good) return ended(good.error());
  const Result<CaFolder> ca = read_ca(without_slash(of.operands.at(0)), now);
  if (!ca) return ended(ca.error());
  const Result<tls::WallTime> ends = end_of(of.ca.ttl, kTokenLife, *ca, now);
  if (!ends) return ended(ends.error());
  const std::string token = tls::signed_token(
      {of.ca.name, of.ca.role, of.ca.jobs, now - kClockBehind, *ends, {}}, ca->key);
  if (token.size() > tls::kTokenBytes) {
    return ended(
        wrong(format("the token would have {} bytes, limit {}; give fewer or shorter "
                     "patterns of jobs",
                     token.size(), tls::kTokenBytes)));
  }
  if (of.ca.out.empty()) {
    if (!of.json) return {0, token + "\n", {}};
    const boost::json::value page = {{"token", token}};
    return {0, json::text_of(page) + "\n", {}};
  }
  const Result<void> written = write_token(of.ca.out, of.ca.name, token);
  if (!written) return ended(written.error());
  if (of.json) return show_paths({of.ca.out}, true, now);
  return {0,
          format("wrote the token of {} to {}: role {} in jobs {}, valid until {}\n", of.ca.name,
                 of.ca.out, of.ca.role, listed(of.ca.jobs), time_text(*ends)),
          {}};
}

}  // namespace c10dd::ctl
