// SPDX-License-Identifier: Apache-2.0
// Defines the option tables. The help text lists the options in the order of their table.
#include "client/launcher/option_table.h"

namespace c10dd::run {
namespace {

constexpr std::size_t kColumn = 30;  // where the help texts begin

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

const std::vector<Option> kOptions = {
    {{"--nproc", "--nproc-per-node"},
     "N",
     "number of workers on this node, 1 to 1024",
     &Words::nproc},
    {{"--nnodes"},
     "N or MIN:MAX",
     "number of nodes; with a range the job continues with fewer nodes\nand accepts more",
     &Words::nnodes},
    {{"--node-rank"},
     "N",
     "fixed rank of this node; if you give it, give it on every node.\n"
     "Otherwise c10drun assigns the ranks, and a node keeps its rank",
     &Words::node_rank},
    {{"--max-restarts"},
     "N",
     "how many failures may restart the workers; a node that joins or\n"
     "leaves does not count",
     &Words::max_restarts},
    {{"--max-flaps"},
     "N",
     "how often this host may be lost within a minute of joining; it waits\n"
     "longer each time before it joins again",
     &Words::max_flaps},
    {{"--daemon", "--rdzv-endpoint"},
     "HOST:PORT[,HOST:PORT...]",
     "address of the c10dd daemon that connects the nodes, or addresses\n"
     "of several daemons of one engine, or c10dd://HOST:PORT/JOB;\n"
     "default C10DD_URL, then C10DD_ADDR, then 127.0.0.1:29500",
     &Words::daemon},
    {{"--standalone"}, "", "run on one node, and start a daemon for it", &Words::standalone},
    {{"--job", "--rdzv-id"},
     "NAME",
     "name of the job, the same on all nodes; default the job of the URL,\n"
     "C10DD_JOB, slurm-<id>, or on one node a unique name",
     &Words::job},
    {{"--run"},
     "ID",
     "name of this run of the job; default C10DD_RUN, requeue-<n> in\nSlurm, otherwise empty",
     &Words::run},
    {{"-m", "--module"}, "", "PROGRAM is a module: run python3 -u -m PROGRAM", &Words::module},
    {{"--no-python"}, "", "execute PROGRAM directly, even if it ends with .py", &Words::no_python},
    {{"--log-dir"},
     "DIR",
     "also write DIR/LAUNCH/GENERATION/RANK/stdout.log and stderr.log;\n"
     "every launch has its own folder",
     &Words::log_dir},
    {{"--no-prefix"}, "", "print the output of the workers without [RANK]", &Words::no_prefix},
    {{"--no-console"}, "", "do not print the output of the workers", &Words::no_console},
    {{"--local-ranks-filter"},
     "LIST",
     "print only the output of workers with these local ranks, for\nexample 0,2",
     &Words::local_ranks},
    {{"--grace", "--shutdown-timeout"},
     "TIME",
     "time from SIGTERM to SIGKILL, for example 500ms, 15s, 10m or 2h; a\n"
     "number without a unit is seconds",
     &Words::grace},
    {{"--last-call"},
     "TIME",
     "how long to wait for more nodes after MIN have joined",
     &Words::last_call},
    {{"--join-timeout"}, "TIME", "how long to wait for MIN nodes", &Words::join_timeout},
    {{"--connect-timeout"}, "TIME", "how long to wait for the daemon", &Words::connect_timeout},
    {{"--exit-timeout"},
     "TIME",
     "how long to wait for the workers of other nodes after all workers\n"
     "of this node have exited with code 0",
     &Words::exit_timeout},
    {{"--stdin"},
     "RANK",
     "rank of the worker that reads the standard input of c10drun; default\n"
     "the only worker, if the input is a terminal",
     &Words::stdin_rank},
    {{"--labels"},
     "NAME=VALUE",
     "label of this node that other nodes can read; repeatable",
     &Words::labels},
    {{"--domain"},
     "NAME",
     "topology domain, for example a rack or an NVLink domain: its nodes\nget contiguous ranks",
     &Words::domain},
    {{"--local-addr"},
     "ADDRESS",
     "address at which other nodes reach this node; default the local\n"
     "address of its connection to the daemon",
     &Words::local_address},
    {{"--role"}, "NAME", "value of ROLE_NAME in the workers' environment", &Words::role},
    {{"--store"},
     "WHERE",
     "where PyTorch workers find their store. proxy: in the daemon, through\n"
     "a port of this node; the workers survive a crash of the daemon.\n"
     "rank0: in a server that rank 0 runs, as with torchrun",
     &Words::store},
    {{"--show"}, "", "print each option and where its value comes from, and exit", &Words::show},
    {{"-h", "--help"}, "", "print this help and exit", &Words::help},
    {{"--version"}, "", "print the version and exit", &Words::version},
};

}  // namespace

const std::vector<Option>& all_options() { return kOptions; }

const std::vector<TorchrunFlag>& torchrun_flags() {
  constexpr std::string_view kLogs = "search the files of --log-dir instead, for example with grep";
  constexpr std::string_view kMaster =
      "c10drun chooses the address and a free port of node 0; leave it out, and give the daemon's "
      "address with --daemon HOST:PORT";
  static const std::vector<TorchrunFlag> flags = {
      {{"--rdzv-backend"},
       true,
       {"c10d", "static", "c10dd"},
       "nodes always join through a c10dd daemon; leave it out, and use --daemon HOST:PORT"},
      {{"--rdzv-conf"},
       true,
       {""},
       "use --join-timeout for timeout and join_timeout, --last-call for last_call_timeout, and "
       "--connect-timeout for read_timeout"},
      {{"--master-addr"}, true, {}, kMaster},
      {{"--master-port"}, true, {}, kMaster},
      {{"--monitor-interval"}, true, {"*"}, ""},  // the end of a worker is noticed at once
      {{"--start-method"}, true, {"*"}, ""},      // a worker is always a new process
      {{"--event-log-handler"},
       true,
       {"null"},
       "leave it out; events are in the daemon's log and its /metrics"},
      {{"--run-path"},
       false,
       {},
       "leave it out: python3 runs SCRIPT.py in a new process for each worker"},
      {{"-r", "--redirects"},
       true,
       {"0"},
       "use --log-dir DIR --no-console to write the output of all workers to files only"},
      {{"-t", "--tee"}, true, {"*"}, ""},  // --log-dir always writes what is also printed
      {{"--log-line-prefix-template"},
       true,
       {},
       "lines begin with [RANK]; use --no-prefix to print them without a prefix"},
      {{"--duplicate-stdout-filters"}, true, {""}, kLogs},
      {{"--duplicate-stderr-filters"}, true, {""}, kLogs},
      {{"--logs-specs"}, true, {"default"}, "use --log-dir DIR to write the output to files"},
      {{"--numa-binding"},
       true,
       {},
       "c10drun does not bind processes; give as PROGRAM a script that reads LOCAL_RANK and starts "
       "your program with numactl or taskset"},
      {{"--signals-to-handle"},
       true,
       {},
       "c10drun passes SIGTERM, SIGINT and SIGHUP on to the workers; leave it out"},
      {{"--virtual-local-rank"},
       false,
       {},
       "the workers of a node differ in LOCAL_RANK; set CUDA_VISIBLE_DEVICES from it in PROGRAM"},
      {{"--use-env"}, false, {"*"}, ""},  // ranks are always in the environment
      {{"--print-completion"}, true, {}, "not available; c10drun --help lists the options"},
  };
  return flags;
}

std::string help_text() {
  std::string text =
      "Starts the workers of a training job on this node and keeps them running.\n"
      "Usage: c10drun [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
      "\n"
      "A PROGRAM that ends with .py is run by python3, or by the interpreter in PYTHON_EXEC.\n"
      "\n"
      "Options:\n";
  for (const Option& option : all_options()) text += in_help(option);
  return text +
         "\n"
         "The spellings of torchrun work, too, such as --nproc_per_node. For a torchrun option "
         "that\n"
         "c10drun does not have, the error says what to use instead. Options end at PROGRAM. As\n"
         "in torchrun, a variable such as PET_NNODES sets an option that is not given.\n"
         "\n"
         "Example: c10drun --standalone --nproc 4 train.py --lr 1e-3\n";
}

}  // namespace c10dd::run
