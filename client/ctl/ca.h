// SPDX-License-Identifier: Apache-2.0
// The group `ca` of c10ddctl: makes a small CA, the files of the daemons that it knows, and tokens.
// Works on local files only. A program that is built without OpenSSL refuses all of it.
#pragma once

#include "client/ctl/arguments.h"
#include "client/ctl/outcome.h"
#include "protocol/tls/certificates.h"

namespace c10dd::ctl {

/// Makes a CA in a folder, and the files of the first daemon below it; leaves nothing there if it
/// fails. Exit codes of all commands here: exit_code::kUsage if an operand, an option or a file is
/// wrong, exit_code::kCannotCreate if a file cannot be written.
Outcome ca_init(const Arguments& of, tls::WallTime now);

/// Makes the files of a daemon, or renews them: a daemon that reads them meanwhile has the old or
/// the new ones.
Outcome ca_daemon(const Arguments& of, tls::WallTime now);

/// Begins to replace the key of a CA, or ends it with --finish. In between both keys are trusted.
/// Interrupted at any point, it can be run again.
Outcome ca_renew(const Arguments& of, tls::WallTime now);

/// Signs a token; prints it or writes it to a file, where it may replace an older one of the same
/// name.
Outcome ca_token(const Arguments& of, tls::WallTime now);

/// Says what is in a folder, a certificate or a token, also if it has expired. Shows neither keys
/// nor the token itself.
Outcome ca_show(const Arguments& of, tls::WallTime now);

}  // namespace c10dd::ctl
