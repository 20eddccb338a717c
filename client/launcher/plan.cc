// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/plan.h"

#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"

namespace c10dd::run {
namespace {

std::uint32_t nproc_of(const Member& member) {
  if (const auto label = member.labels.find("nproc"); label != member.labels.end()) {
    const auto nproc = parse_number<std::uint32_t>(label->second);
    if (nproc && *nproc >= 1 && *nproc <= kWorkersPerNode) return *nproc;
  }
  throw Fatal(exit_code::kBug,
              format("node {} ({}) did not report its number of workers; install the same "
                     "version of c10drun on all nodes",
                     member.rank, member.host));
}

}  // namespace

Plan make_plan(const Generation& generation, const std::vector<Member>& members) {
  Plan plan;
  plan.generation = generation.number;
  plan.node_rank = generation.rank;
  plan.nodes = generation.size;
  std::uint64_t sum = 0;
  for (const Member& member : members) {
    const std::uint32_t nproc = nproc_of(member);
    if (member.rank == generation.rank) {
      plan.first_rank = static_cast<std::uint32_t>(sum);
      plan.local_size = nproc;
    }
    if (member.rank == 0) {
      const auto address = member.labels.find("address");
      plan.master_address = address == member.labels.end() ? member.host : address->second;
    }
    sum += nproc;
    if (sum > limits::kWorldSize) {
      throw Fatal(
          exit_code::kUsage,
          format("nodes 0 to {} have {} workers, but a job may have at most {}; lower --nproc",
                 member.rank, sum, limits::kWorldSize));
    }
  }
  plan.world_size = static_cast<std::uint32_t>(sum);
  return plan;
}

std::map<std::string, std::string> member_labels(const Options& options,
                                                 const std::string& address) {
  std::map<std::string, std::string> labels = options.labels;
  labels["nproc"] = std::to_string(options.nproc);
  labels["address"] = address;
  return labels;
}

std::string worker_run(const std::string& run, const Plan& plan) {
  return format("{}g{}-{}", run.empty() ? "" : run + ".", plan.generation, plan.nonce);
}

std::vector<std::string> worker_environment(const std::map<std::string, std::string>& inherited,
                                            const Options& options, const Plan& plan,
                                            std::uint32_t local_rank,
                                            const std::string& error_file) {
  std::map<std::string, std::string> all = inherited;
  const std::string rank = std::to_string(plan.first_rank + local_rank);
  const std::string size = std::to_string(plan.world_size);
  const std::string local = std::to_string(local_rank);
  const std::string local_size = std::to_string(plan.local_size);
  const std::string node = std::to_string(plan.node_rank);
  const std::map<std::string, std::string> ours = {
      {"RANK", rank},
      {"WORLD_SIZE", size},
      {"LOCAL_RANK", local},
      {"LOCAL_WORLD_SIZE", local_size},
      {"GROUP_RANK", node},
      {"GROUP_WORLD_SIZE", std::to_string(plan.nodes)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", size},
      {"ROLE_NAME", options.role},
      {"MASTER_ADDR", plan.store_port.empty() ? plan.master_address : "127.0.0.1"},
      {"MASTER_PORT", plan.store_port.empty() ? plan.master_port : plan.store_port},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(plan.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.daemon.job},
      {"TORCHELASTIC_USE_AGENT_STORE", plan.store_port.empty() ? "False" : "True"},
      {"TORCHELASTIC_ERROR_FILE", error_file},
      {"C10DD_URL", options.daemon.text()},
      {"C10DD_JOB", options.daemon.job},
      {"C10DD_RUN", worker_run(options.run, plan)},
      {"C10DD_RANK", rank},
      {"C10DD_WORLD_SIZE", size},
      {"C10DD_LOCAL_RANK", local},
      {"C10DD_LOCAL_WORLD_SIZE", local_size},
      {"C10DD_NODE_RANK", node},
      {"C10DD_GENERATION", std::to_string(plan.generation)},
      {"C10DD_RANK0_ADDR", plan.master_address},
      {"C10DD_RANK0_PORT", plan.master_port},
  };
  for (const auto& [name, value] : ours) all[name] = value;
  if (plan.threads > 0) all.emplace("OMP_NUM_THREADS", std::to_string(plan.threads));
  std::vector<std::string> pairs;
  pairs.reserve(all.size());
  for (const auto& [name, value] : all) pairs.emplace_back(name).append("=").append(value);
  return pairs;
}

}  // namespace c10dd::run
