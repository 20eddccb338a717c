// SPDX-License-Identifier: Apache-2.0
// The commands of the group `ca` and their options.
#include "client/ctl/command_table.h"

namespace c10dd::ctl {

const std::vector<Command>& ca_commands() {
  static const std::vector<Command> commands = {
      {.name = "ca init",
       .operands = {"DIR"},
       .sentence = "make a CA in the new folder DIR, and the files of the first daemon below it",
       .options = {{"--host", "HOST[,HOST...]",
                    "names and addresses by which trainers reach the daemon; may be repeated",
                    &Words::hosts}},
       .is_local = true},
      {.name = "ca daemon",
       .operands = {"DIR"},
       .sentence = "make the files of another daemon with the CA in DIR, or renew them",
       .options = {{"--host", "HOST[,HOST...]",
                    "names and addresses by which trainers reach the daemon; may be repeated;\n"
                    "default when files are renewed: those of the old certificate",
                    &Words::hosts},
                   {"--out", "FOLDER", "where to write tls.crt, tls.key and ca.crt", &Words::out},
                   {"--ttl", "TIME", "how long the certificate is valid; default 365d",
                    &Words::ttl}},
       .is_local = true},
      {.name = "ca renew",
       .operands = {"DIR"},
       .sentence = "replace the key of the CA in DIR, while daemons and tokens of both are good",
       .options = {{"--finish", "", "take the former CA out, when nobody needs it any more",
                    &Words::finish}},
       .is_local = true},
      {.name = "ca token",
       .operands = {"DIR"},
       .sentence = "sign a token with the CA in DIR; print it, or write it to a file",
       .options =
           {{"--name", "NAME", "whom the daemon takes the owner of the token for", &Words::name},
            {"--jobs", "PATTERN",
             "name of a job, or a begin of names with * at the end; may be repeated", &Words::jobs},
            {"--role", "ROLE", "viewer, trainer or admin; default trainer", &Words::role},
            {"--ttl", "TIME", "how long the token is valid, at most 400d; default 30d",
             &Words::ttl},
            {"--out", "FILE", "a new file, or one with an older token of NAME", &Words::out}},
       .is_local = true},
      {.name = "ca show",
       .operands = {"PATH"},
       .sentence = "say what a folder of a CA or a daemon, a certificate or a token has in it",
       .is_local = true},
  };
  return commands;
}

}  // namespace c10dd::ctl
