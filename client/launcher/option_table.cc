// SPDX-License-Identifier: Apache-2.0
// The tables, in the order of the help.
#include "client/launcher/option_table.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kColumn = 30;  // where the sentences begin

std::string default_of(const Option& option) {
  const auto* word = std::get_if<std::string Words::*>(&option.word);
  return word == nullptr ? std::string() : Words().**word;
}

std::string in_help(const Option& option) {
  std::string text = "  ";
  for (const std::string_view name : option.names) {
    text.append(text.size() > 2 ? ", " : "").append(name);
  }
  if (!option.value.empty()) text.append(" ").append(option.value);
  const std::string indent(kColumn, ' ');
  text += text.size() < kColumn ? indent.substr(text.size()) : "\n" + indent;
  for (const char c : option.sentence) text += c == '\n' ? "\n" + indent : std::string(1, c);
  const std::string standard = default_of(option);
  return text + (standard.empty() ? "" : "\n" + indent + "default " + standard) + "\n";
}

}  // namespace

const std::vector<Option>& all_options() {
  static const std::vector<Option> options = {
      {{"--nproc", "--nproc-per-node"}, "N", "workers on this node, 1 to 1024", &Words::nproc},
      {{"--nnodes"},
       "N or MIN:MAX",
       "nodes; with a range the job goes on with fewer nodes and takes in\nmore",
       &Words::nnodes},
      {{"--node-rank"},
       "N",
       "of this node; must then be given on every node. Without it any node\n"
       "gets any rank and keeps it",
       &Words::node_rank},
      {{"--max-restarts"},
       "N",
       "failures after which the workers start again; a node that comes or\ngoes is none",
       &Words::max_restarts},
      {{"--daemon", "--rdzv-endpoint"},
       "HOST:PORT",
       "of the c10dd daemon at which the nodes meet, or\n"
       "c10dd://HOST:PORT/JOB; without it C10DD_URL, C10DD_ADDR or\n"
       "127.0.0.1:29500",
       &Words::daemon},
      {{"--standalone"}, "", "one node, with a daemon of its own", &Words::standalone},
      {{"--job", "--rdzv-id"},
       "NAME",
       "the same on all nodes; without it that of the URL, C10DD_JOB,\n"
       "slurm-<id>, or on one node a unique name",
       &Words::job},
      {{"--run"},
       "ID",
       "this incarnation of the job; without it C10DD_RUN, requeue-<n> in\nSlurm, or none",
       &Words::run},
      {{"-m", "--module"}, "", "PROGRAM is a module: python3 -u -m PROGRAM", &Words::module},
      {{"--no-python"}, "", "execute PROGRAM itself, also if it ends with .py", &Words::no_python},
      {{"--log-dir"},
       "DIR",
       "also write DIR/LAUNCH/GENERATION/RANK/stdout.log and stderr.log;\n"
       "every launch has a folder of its own",
       &Words::log_dir},
      {{"--no-prefix"}, "", "print the lines of the workers without [RANK]", &Words::no_prefix},
      {{"--no-console"}, "", "print nothing of the workers", &Words::no_console},
      {{"--local-ranks-filter"},
       "LIST",
       "print only what the workers with these local ranks print: 0,2",
       &Words::local_ranks},
      {{"--grace", "--shutdown-timeout"},
       "TIME",
       "from SIGTERM to SIGKILL: 500ms, 15s, 10m or 2h; a number alone is\nseconds",
       &Words::grace},
      {{"--last-call"}, "TIME", "for more nodes, once MIN are there", &Words::last_call},
      {{"--join-timeout"}, "TIME", "for MIN nodes to come", &Words::join_timeout},
      {{"--connect-timeout"}, "TIME", "for the daemon to answer", &Words::connect_timeout},
      {{"--labels"}, "NAME=VALUE", "that the other nodes can read; repeatable", &Words::labels},
      {{"--domain"}, "NAME", "topology: a rack, a switch, an NVLink domain", &Words::domain},
      {{"--local-addr"},
       "ADDRESS",
       "where the others reach this node; without it its address on the way\nto the daemon",
       &Words::local_address},
      {{"--role"}, "NAME", "what workers find as ROLE_NAME", &Words::role},
      {{"-h", "--help"}, "", "print this", &Words::help},
      {{"--version"}, "", "print the version", &Words::version},
  };
  return options;
}

const std::vector<TorchrunFlag>& torchrun_flags() {
  constexpr std::string_view kLogs = "search the files of --log-dir instead, for example with grep";
  constexpr std::string_view kMaster =
      "node 0 and a free port of it are found out; leave it out, and say --daemon HOST:PORT for "
      "the daemon";
  static const std::vector<TorchrunFlag> flags = {
      {{"--rdzv-backend"},
       true,
       {"c10d", "static", "c10dd"},
       "the nodes meet at a c10dd daemon; leave it out, and say --daemon HOST:PORT"},
      {{"--rdzv-conf"},
       true,
       {""},
       "say --join-timeout for timeout and join_timeout, --last-call for last_call_timeout, and "
       "--connect-timeout for read_timeout"},
      {{"--master-addr"}, true, {}, kMaster},
      {{"--master-port"}, true, {}, kMaster},
      {{"--monitor-interval"}, true, {"*"}, ""},  // the end of a worker is heard at once
      {{"--start-method"}, true, {"*"}, ""},      // a worker is a program of its own
      {{"--event-log-handler"},
       true,
       {"null"},
       "events are lines of the daemon's log and its /metrics; leave it out"},
      {{"--run-path"},
       false,
       {},
       "leave it out: SCRIPT.py is run by python3, a program of its own for each worker"},
      {{"-r", "--redirects"},
       true,
       {"0"},
       "say --log-dir DIR --no-console to have the output of all workers in files only"},
      {{"-t", "--tee"}, true, {"*"}, ""},  // all is printed, and with --log-dir written, too
      {{"--log-line-prefix-template"},
       true,
       {},
       "the prefix of a line is [RANK]; say --no-prefix for none"},
      {{"--duplicate-stdout-filters"}, true, {""}, kLogs},
      {{"--duplicate-stderr-filters"}, true, {""}, kLogs},
      {{"--logs-specs"}, true, {"default"}, "say --log-dir DIR to have the output in files"},
      {{"--numa-binding"},
       true,
       {},
       "c10drun binds nothing; start the program through numactl or taskset, in a script that "
       "reads LOCAL_RANK, and name that script as PROGRAM"},
      {{"--signals-to-handle"},
       true,
       {},
       "SIGTERM, SIGINT and SIGHUP are passed on to the workers; leave it out"},
      {{"--virtual-local-rank"},
       false,
       {},
       "LOCAL_RANK tells the workers of a node apart; set CUDA_VISIBLE_DEVICES from it in PROGRAM"},
      {{"--use-env"}, false, {"*"}, ""},  // ranks are always in the environment
      {{"--print-completion"}, true, {}, "there is none; c10drun --help lists the options"},
  };
  return flags;
}

std::string help_text() {
  std::string text =
      "Starts the workers of a training job on this node and keeps them running.\n"
      "Usage: c10drun [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
      "\n"
      "A PROGRAM that ends with .py is run by PYTHON_EXEC, or else python3.\n"
      "\n"
      "Options:\n";
  for (const Option& option : all_options()) text += in_help(option);
  return text +
         "\n"
         "Options may be spelled as torchrun spells them; one that c10drun has not is answered "
         "with\n"
         "what to do instead. Options end at PROGRAM.\n"
         "\n"
         "Example: c10drun --standalone --nproc 4 train.py --lr 1e-3\n";
}

}  // namespace c10dd::run
