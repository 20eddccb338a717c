// SPDX-License-Identifier: Apache-2.0
// c10ddctl ca renew. The new certificate in ca.crt is what makes the new key the one of the CA:
// whatever was written before it does not count, and what comes after it can be done later.
#include <unistd.h>

#include <algorithm>

#include "client/ctl/ca.h"
#include "client/ctl/ca_folder.h"
#include "client/ctl/ca_show.h"
#include "client/ctl/secret_files.h"
#include "client/ctl/watch.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"

namespace c10dd::ctl {
namespace {

constexpr const char* kNextSteps =
    "next, in this order; the page docs/security.md says more:\n"
    "1. copy {0}/ca.crt over the ca.crt of each daemon, and over each file of C10DD_CA_FILE\n"
    "2. renew the files of each daemon: c10ddctl ca daemon {0} --out FOLDER\n"
    "3. write new tokens over the old ones: c10ddctl ca token {0} --name NAME --out FILE ...\n"
    "4. when no daemon notes in /readyz that tokens of the former CA are shown: c10ddctl ca renew "
    "{0} --finish\n";

/// Lets the new key be ca.key. Until then it is read from next.key.
Result<void> adopt_key(const CaFolder& ca, const FolderLock& lock) {
  const SecretFile key{ca.path + "/ca.key", ca.key.private_pem()};
  if (Result<void> written = replace_files({key}, lock); !written) return written;
  ::unlink((ca.path + "/next.key").c_str());
  lock.sync();
  return {};
}

Result<CaFolder> begin(const CaFolder& old, tls::WallTime now, const FolderLock& lock) {
  if (!old.certificate.is_root()) {
    return failure(Code::invalid_argument,
                   "another CA has signed {}/ca.crt; let that CA issue a new certificate",
                   old.path);
  }
  const tls::Certificate former = old.certificate.allows_ca_below()
                                      ? old.certificate
                                      : tls::make_roomy(old.certificate, old.key);
  CaFolder next = new_ca(old.path, now);
  next.crosses = {tls::make_cross(next.certificate, former, old.key)};
  next.others = {former, tls::make_cross(former, next.certificate, next.key)};
  next.others.insert(next.others.end(), old.others.begin(), old.others.end());
  const std::string cas = next.certificate.pem() + pem_of(next.others);
  const Result<void> written = replace_files({{next.path + "/next.key", next.key.private_pem()},
                                              {next.path + "/cross.crt", pem_of(next.crosses)},
                                              {next.path + "/ca.crt", cas}},
                                             lock);
  if (!written) return written.error();
  if (Result<void> adopted = adopt_key(next, lock); !adopted) return adopted.error();
  return next;
}

std::string hashes_of(const std::vector<tls::Certificate>& all) {
  std::string text;
  for (const tls::Certificate& one : all) {
    text += (text.empty() ? "" : ", ") + hash_text(one.key().hash());
  }
  return text;
}

/// Returns the roots that are being replaced.
std::vector<tls::Certificate> former_roots(const CaFolder& ca) {
  std::vector<tls::Certificate> roots;
  std::ranges::copy_if(ca.others, std::back_inserter(roots), [&](const tls::Certificate& one) {
    return ca.is_former(one) && one.is_root();
  });
  return roots;
}

/// Takes the former CA out. It is noted as retired first, so that the files of daemons lose it,
/// too.
Result<std::string> finish(const CaFolder& ca, const FolderLock& lock) {
  const std::vector<tls::Certificate> former = former_roots(ca);
  std::vector<tls::Certificate> retired = ca.retired;
  for (const tls::Certificate& one : former) {
    const auto is_it = [&](const tls::Certificate& known) { return known.pem() == one.pem(); };
    if (std::ranges::none_of(retired, is_it)) retired.push_back(one);
  }
  std::vector<tls::Certificate> cas = {ca.certificate};
  std::ranges::copy_if(ca.others, std::back_inserter(cas),
                       [&](const tls::Certificate& one) { return !ca.is_former(one); });
  const Result<void> written = replace_files(
      {{ca.path + "/retired.crt", pem_of(retired)}, {ca.path + "/ca.crt", pem_of(cas)}}, lock);
  if (!written) return written.error();
  ::unlink((ca.path + "/cross.crt").c_str());
  lock.sync();
  return format(
      "former CAs ({0}) are not in {1}/ca.crt any more\n"
      "next, renew the files of each daemon: c10ddctl ca daemon {1} --out FOLDER\n"
      "and copy {1}/ca.crt over each file of C10DD_CA_FILE; tokens of the former CA are refused "
      "from then on\n",
      hashes_of(retired), ca.path);
}

Result<std::string> renew(const std::string& path, bool finishes, tls::WallTime now) {
  if (!is_folder(path)) return read_ca(path, now).error();
  if (Result<void> own = check_own(path); !own) return own.error();
  const Result<FolderLock> lock = FolderLock::of(path);
  if (!lock) return lock.error();
  const Result<CaFolder> ca = read_ca(path, now);
  if (!ca) return ca.error();
  if (ca->has_next_key) {
    if (Result<void> adopted = adopt_key(*ca, *lock); !adopted) return adopted.error();
  }
  const bool may_finish = ca->is_renewed() || exists(path + "/cross.crt");
  if (finishes && may_finish) return finish(*ca, *lock);
  if (finishes) {
    return failure(
        Code::invalid_argument,
        "the CA in {} is not being renewed; c10ddctl ca renew {} without --finish begins", path,
        path);
  }
  if (ca->is_renewed() && !ca->has_next_key) {
    return failure(
        Code::invalid_argument,
        "the CA in {} is being renewed already, and its former CA ({}) is still trusted; "
        "end that with c10ddctl ca renew {} --finish first",
        path, hashes_of(former_roots(*ca)), path);
  }
  const Result<CaFolder> next = ca->is_renewed() ? ca : begin(*ca, now, *lock);
  if (!next) return next.error();
  return format(
             "made a new key of the CA in {} ({}), valid until {}; the former one ({}) stays "
             "trusted\n",
             path, hash_text(next->key.hash()), time_text(next->certificate.ends()),
             hashes_of(former_roots(*next))) +
         format(kNextSteps, path);
}

}  // namespace

Outcome ca_renew(const Arguments& of, tls::WallTime now) {
  std::string path = of.operands.at(0);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  Result<std::string> done = renew(path, of.ca.finish, now);
  if (!done) {
    const bool on_disk = done.error().code == Code::unavailable;
    return {on_disk ? exit_code::kCannotCreate : exit_code::kUsage, "", done.error().detail};
  }
  if (of.json) return show_paths({path}, true, now);
  return {0, std::move(*done), {}};
}

}  // namespace c10dd::ctl
