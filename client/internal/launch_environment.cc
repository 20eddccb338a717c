// SPDX-License-Identifier: Apache-2.0
#include "client/internal/launch_environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kValueShown = 120;

/// The condition for using a source. A source is the variables of one launcher.
enum class When : std::uint8_t {
  by_hand,    ///< use the source if its rank and size are set; a rank without a size is an error
  whole,      ///< use the source if its rank and size are set
  srun,       ///< like `whole`, but only if srun, and not mpirun, has started the ranks
  size_apart  ///< like `whole`, but the size comes from one of the variables in kSizesApart
};

/// The variables of one launcher. A name is nullptr if the launcher has no such variable.
struct Source {
  const char* name;
  When when;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* node_rank;
};

constexpr std::array kSources = {
    Source{"c10dd", When::by_hand, "C10DD_RANK", "C10DD_WORLD_SIZE", "C10DD_LOCAL_RANK",
           "C10DD_LOCAL_WORLD_SIZE", "C10DD_NODE_RANK"},
    Source{"torchrun", When::by_hand, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
           "GROUP_RANK"},
    Source{"slurm", When::srun, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr,
           "SLURM_NODEID"},
    Source{"openmpi", When::whole, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    Source{"pmi", When::whole, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
           nullptr},
    Source{"pmix", When::size_apart, "PMIX_RANK", nullptr, nullptr, nullptr, nullptr},
    Source{"kubernetes", When::size_apart, "JOB_COMPLETION_INDEX", nullptr, nullptr, nullptr,
           nullptr},
};
constexpr const char* kSizesApart[] = {"C10DD_WORLD_SIZE", "WORLD_SIZE"};

std::string in_quotes(std::string_view text) { return "\"" + printable(text, kValueShown) + "\""; }

std::string what_to_do(const Source& source) {
  if (source.when == When::by_hand && std::string_view(source.name) == "c10dd") {
    return "; correct it, or unset C10DD_RANK and C10DD_WORLD_SIZE to use those of the launcher";
  }
  return format("; correct it where {} was started, or set C10DD_RANK and C10DD_WORLD_SIZE instead",
                source.name);
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  Result<LaunchEnvironment> read();

 private:
  /// Returns the value of a variable; empty if it is not set.
  std::string_view get(const char* name) const {
    const char* text = name == nullptr ? nullptr : environment_(name);
    return text == nullptr ? std::string_view() : std::string_view(text);
  }
  void use(const char* name) {
    const std::string pair = format("{}={}", name, printable(get(name), kValueShown));
    if (std::find(found_.used.begin(), found_.used.end(), pair) == found_.used.end()) {
      found_.used.push_back(pair);
    }
  }
  Result<std::int64_t> number(const Source& source, const char* name, std::int64_t least,
                              std::int64_t most);
  const char* size_of(const Source& source) const;
  bool present(const Source& source) const;
  bool by_srun() const;
  bool overruled_by_mpi() const;
  std::string why_no_rank() const;
  Result<void> take(const Source& source);
  Result<void> check_half(const Source& source);
  Result<void> check_agreement(const Source& source) const;
  void list_overruled(const Source* winner);
  void name_job();
  void name_run();

  const Environment& environment_;
  LaunchEnvironment found_;
};

/// Returns the value of a variable as a number; -1 if it is not set.
Result<std::int64_t> Reader::number(const Source& source, const char* name, std::int64_t least,
                                    std::int64_t most) {
  const std::string_view text = get(name);
  if (text.empty()) return std::int64_t{-1};
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value >= least && *value <= most) {
    use(name);
    return *value;
  }
  return failure(Code::invalid_argument, "{} is {}, which is not an integer from {} to {}{}", name,
                 in_quotes(text), least, most, what_to_do(source));
}

const char* Reader::size_of(const Source& source) const {
  if (source.when != When::size_apart) return source.size;
  for (const char* name : kSizesApart) {
    if (!get(name).empty()) return name;
  }
  return nullptr;
}

bool Reader::present(const Source& source) const {
  if (get(source.rank).empty() || get(size_of(source)).empty()) return false;
  if (source.when != When::srun) return true;
  return (by_srun() || get("SLURM_NTASKS") == "1") && !overruled_by_mpi();
}

/// Returns whether srun has started this process. Slurm sets the variables of rank 0 in the batch
/// script, too, and in the shell of salloc.
bool Reader::by_srun() const {
  constexpr std::uint32_t kSpecialSteps = 0xfffffff0;  // batch script, interactive shell, others
  const auto step = parse_number<std::uint32_t>(get("SLURM_STEP_ID"));
  return step && *step < kSpecialSteps;
}

/// Says why variables of a launcher are no rank.
std::string Reader::why_no_rank() const {
  if (!get("SLURM_PROCID").empty() && !get("SLURM_NTASKS").empty() && !overruled_by_mpi()) {
    return format(
        "SLURM_PROCID={} and SLURM_NTASKS={} are set, but srun did not start this process "
        "(see SLURM_STEP_ID): start it with srun",
        printable(get("SLURM_PROCID"), kValueShown), printable(get("SLURM_NTASKS"), kValueShown));
  }
  for (const char* name : {"JOB_COMPLETION_INDEX", "PMIX_RANK"}) {
    if (get(name).empty()) continue;
    return format(
        "{}={} is set, but WORLD_SIZE is not: set WORLD_SIZE or C10DD_WORLD_SIZE to the number of "
        "ranks",
        name, printable(get(name), kValueShown));
  }
  return {};
}

/// Returns whether mpirun, not srun, has started the ranks: then the rank or size of the MPI
/// launcher differs from Slurm's. Slurm's variables are wrong in this case, because all ranks of a
/// node have the SLURM_PROCID of the one Slurm task in which mpirun runs.
bool Reader::overruled_by_mpi() const {
  return std::any_of(kSources.begin(), kSources.end(), [this](const Source& mpi) {
    if (mpi.when != When::whole || !present(mpi)) return false;
    return get(mpi.rank) != get("SLURM_PROCID") || get(mpi.size) != get("SLURM_NTASKS");
  });
}

/// Handles a source that lacks its rank or its size. Does nothing unless the source is `by_hand`.
/// Fails if only the rank is set. If only the size is set, stores the size.
Result<void> Reader::check_half(const Source& source) {
  if (source.when != When::by_hand) return {};
  const Result<std::int64_t> rank = number(source, source.rank, 0, limits::kWorldSize - 1);
  if (!rank) return rank.error();
  const Result<std::int64_t> size = number(source, source.size, 1, limits::kWorldSize);
  if (!size) return size.error();
  if (*rank >= 0) {
    return failure(
        Code::invalid_argument,
        "{} is {}, but {} is not set; set it to the number of ranks, at most {}, or unset {}",
        source.rank, *rank, source.size, limits::kWorldSize, source.rank);
  }
  if (found_.world_size < 0) found_.world_size = *size;
  return {};
}

Result<void> Reader::take(const Source& source) {
  struct Field {
    const char* name;
    std::int64_t least;
    std::int64_t& into;
  };
  const Field fields[] = {{source.rank, 0, found_.rank},
                          {size_of(source), 1, found_.world_size},
                          {source.local_rank, 0, found_.local_rank},
                          {source.local_size, 1, found_.local_world_size},
                          {source.node_rank, 0, found_.node_rank}};
  found_.used.clear();  // forgets a size that was found without a rank
  found_.source = source.name;
  for (const Field& field : fields) {
    const auto most = static_cast<std::int64_t>(limits::kWorldSize) - 1 + field.least;
    const Result<std::int64_t> value = number(source, field.name, field.least, most);
    if (!value) return value.error();
    field.into = *value;
  }
  return check_agreement(source);
}

Result<void> Reader::check_agreement(const Source& source) const {
  struct Below {
    const char* small;
    std::int64_t value;
    const char* big;
    std::int64_t limit;
    bool inclusive;
    const char* rule;
  };
  const char* size = size_of(source);
  const Below rules[] = {
      {source.rank, found_.rank, size, found_.world_size, false,
       "ranks go from 0 to the world size - 1"},
      {source.local_rank, found_.local_rank, source.local_size, found_.local_world_size, false,
       "local ranks go from 0 to the local world size - 1"},
      {source.local_rank, found_.local_rank, size, found_.world_size, false,
       "a node cannot have more ranks than the world"},
      {source.local_size, found_.local_world_size, size, found_.world_size, true,
       "a node cannot have more ranks than the world"},
  };
  for (const Below& rule : rules) {
    if (rule.value < 0 || rule.limit < 0) continue;
    if (rule.value < rule.limit || (rule.inclusive && rule.value == rule.limit)) continue;
    return failure(Code::invalid_argument, "{} is {}, but {} is {}; {}{}", rule.small, rule.value,
                   rule.big, rule.limit, rule.rule, what_to_do(source));
  }
  return {};
}

/// Lists each rank or size variable that belongs to an unused source and contradicts the result.
void Reader::list_overruled(const Source* winner) {
  if (winner == nullptr) return;
  for (const Source& source : kSources) {
    if (&source == winner) continue;
    if (source.when != When::by_hand && get(source.rank).empty()) continue;
    const std::pair<const char*, std::int64_t> said[] = {{source.rank, found_.rank},
                                                         {source.size, found_.world_size}};
    for (const auto& [name, value] : said) {
      if (get(name).empty() || get(name) == std::to_string(value)) continue;
      found_.overruled.push_back(format("{}={}", name, printable(get(name), kValueShown)));
    }
  }
}

void Reader::name_job() {
  const auto taken = [&](const std::string& job, std::initializer_list<const char*> from) {
    found_.job = job;
    for (const char* name : from) use(name);
  };
  const std::string torch(get("TORCHELASTIC_RUN_ID"));
  const std::string slurm(get("SLURM_JOB_ID"));
  const std::string job(get("JOB_NAME"));
  const char* space = get("POD_NAMESPACE").empty() ? "NAMESPACE" : "POD_NAMESPACE";
  if (const std::string own(get("C10DD_JOB")); !own.empty()) return taken(own, {"C10DD_JOB"});
  // "none" is torchrun's default for a job without an id.
  if (!torch.empty() && torch != "none") return taken(torch, {"TORCHELASTIC_RUN_ID"});
  if (!slurm.empty()) return taken("slurm-" + slurm, {"SLURM_JOB_ID"});
  if (job.empty() || get("JOB_COMPLETION_INDEX").empty()) return;
  if (get(space).empty()) return taken("k8s-" + job, {"JOB_NAME"});
  taken(format("k8s-{}-{}", get(space), job), {space, "JOB_NAME"});
}

void Reader::name_run() {
  if (const std::string own(get("C10DD_RUN")); !own.empty()) {
    found_.run = own;
    return use("C10DD_RUN");
  }
  const auto add = [&](bool applies, const char* prefix, const char* name) {
    if (!applies || get(name).empty()) return;
    found_.run += format("{}{}{}", found_.run.empty() ? "" : ".", prefix, get(name));
    use(name);
  };
  add(true, "requeue-", "SLURM_RESTART_COUNT");
  add(found_.source == "slurm", "step-", "SLURM_STEP_ID");
  add(found_.source == "torchrun", "restart-", "TORCHELASTIC_RESTART_COUNT");
  add(found_.source == "kubernetes", "uid-", "JOB_UID");
}

Result<LaunchEnvironment> Reader::read() {
  const Source* winner = nullptr;
  for (const Source& source : kSources) {
    if (!present(source)) {
      if (auto good = check_half(source); !good) return good.error();
      continue;
    }
    winner = &source;
    if (auto good = take(source); !good) return good.error();
    break;
  }
  list_overruled(winner);
  if (winner == nullptr) found_.hint = why_no_rank();
  name_job();
  name_run();
  for (const char* name : {"C10DD_JOB", "C10DD_RUN"}) {
    if (get(name).size() <= limits::kNameBytes) continue;
    return failure(Code::invalid_argument, "{} has {} bytes, limit {}; shorten it", name,
                   get(name).size(), limits::kNameBytes);
  }
  return found_;
}

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : ", ") + item;
  return text;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

std::string LaunchEnvironment::summary() const {
  std::string text = "no launcher gives a rank";
  if (!source.empty()) text = format("rank {} of {} from {}", rank, world_size, source);
  if (!used.empty()) text += " (" + joined(used) + ")";
  if (!overruled.empty()) text += "; overruled: " + joined(overruled);
  if (!hint.empty()) text += "; " + hint;
  return text;
}

Result<LaunchEnvironment> read_launch_environment(const Environment& environment) {
  return Reader(environment).read();
}

}  // namespace c10dd::client
