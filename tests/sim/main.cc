// SPDX-License-Identifier: Apache-2.0
// c10dd-sim: the product's job, gate, codecs and client core in a seeded world.
//
//     c10dd-sim --seed 7                 one seed, with its last events if it fails
//     c10dd-sim --seeds 2000 --jobs 2    seeds 1 to 2000; --from N begins elsewhere
//     c10dd-sim --plant all              each planted fault, until an oracle finds it
//     c10dd-sim --plant all --first --seeds-file F
//                                        tries the seed that found it last, before it searches
//     c10dd-sim --plant all --first --seeds-file F --write-seeds F
//                                        the same, and writes the seeds that found them
//     c10dd-sim --list-plants
//
// Exit codes: 0 all promises held, or all plants were found; 1 not; 64 bad option.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/sim/runner.h"

namespace c10dd::sim {
namespace {

constexpr int kBadOption = 64;
constexpr std::uint64_t kViolationsShown = 10;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void print_violation(const Report& report) {
  for (const std::string& line : report.last_events) {
    std::printf("%s%s", line.c_str(), line.ends_with('\n') ? "" : "\n");
  }
  std::printf("seed %llu: %s: %s\nagain with: c10dd-sim --seed %llu\n",
              static_cast<unsigned long long>(report.seed), report.violation->oracle.c_str(),
              report.violation->text.c_str(), static_cast<unsigned long long>(report.seed));
  std::fflush(stdout);
}

int run_one(std::uint64_t seed, AnyPlant plant_to_run, bool print_all) {
  plant(plant_to_run);
  Simulation simulation(seed);
  if (print_all) simulation.print_all();
  Report report = simulation.run();
  for (const Op& op : simulation.calls()) {
    if (print_all) std::printf("%s: %s\n", op.job.c_str(), describe(op).c_str());
  }
  if (print_all) report.last_events.clear();
  if (report.violation) print_violation(report);
  std::printf("seed %llu: hash %016llx, %llu events, %llu calls, %.1f s simulated\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(report.hash),
              static_cast<unsigned long long>(report.events),
              static_cast<unsigned long long>(report.calls),
              static_cast<double>(report.simulated.count()) / 1e9);
  return report.violation ? 1 : 0;
}

int run_many(const Range& range) {
  const auto start = std::chrono::steady_clock::now();
  Report sum;
  std::uint64_t seeds = 0;
  std::uint64_t bad = 0;
  run_seeds(range, [&](const Report& report) {
    ++seeds;
    Random mix(report.seed ^ report.hash);
    sum.hash += mix.next();
    sum.events += report.events;
    sum.calls += report.calls;
    sum.undecided += report.undecided;
    sum.simulated += report.simulated;
    for (std::size_t i = 0; i < kFaults; ++i) sum.faults[i] += report.faults[i];
    if (report.violation) print_violation(report);
    bad += report.violation ? 1 : 0;
    return bad < kViolationsShown;
  });
  const double took = seconds_since(start);
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu seeds from %llu, %llu violations, %.1f s, %.1f seeds/s, %.0f events/s, %llu calls, "
      "%.1f h simulated, %llu keys undecided\nhash %016llx\nfaults:",
      number(seeds), number(range.from), number(bad), took, static_cast<double>(seeds) / took,
      static_cast<double>(sum.events) / took, number(sum.calls),
      static_cast<double>(sum.simulated.count()) / 3.6e12, number(sum.undecided), number(sum.hash));
  for (std::size_t i = 0; i < kFaults; ++i) {
    std::printf(" %s %llu", name_of(static_cast<Fault>(i)),
                static_cast<unsigned long long>(sum.faults[i]));
  }
  std::printf("\n");
  return bad == 0 ? 0 : 1;
}

/// The oracles that look inside: at rows, or at a rebuilt job. All others judge the replies to
/// clients.
bool looks_inside(const std::string& oracle) {
  return oracle == "rows" || oracle == "restored" || oracle == "bounds" || oracle == "restore";
}

void print_found(const PlantInfo& info, const Report& report, std::uint64_t after) {
  std::printf("%-24s found after %5llu seeds by %-14s (seed %llu)\n", info.name.data(),
              static_cast<unsigned long long>(after), report.violation->oracle.c_str(),
              static_cast<unsigned long long>(report.seed));
}

/// What to hunt, and how.
struct Hunt {
  Range range;
  std::string plant;        ///< the name of one, or "all"
  bool only_first = false;  ///< any oracle is enough
  PlantSeeds kept;          ///< tried first
  PlantSeeds found;         ///< the seeds that have found a plant
};

/// Whether the seed that is kept for the plant finds it still. Says so if it does not.
bool found_by_kept_seed(const PlantInfo& info, Hunt& hunt) {
  const auto kept = hunt.kept.find(info.name);
  if (kept == hunt.kept.end()) return false;
  std::optional<Report> found;
  run_seeds({.from = kept->second, .count = 1, .jobs = 1, .plant = info.plant},
            [&](const Report& report) {
              if (report.violation) found = report;
              return true;
            });
  if (found) {
    std::printf("%-24s found by its kept seed %llu, by %s\n", info.name.data(),
                static_cast<unsigned long long>(kept->second), found->violation->oracle.c_str());
    hunt.found[kept->first] = kept->second;
  } else {
    std::printf("%-24s seed %llu finds it no longer; searching\n", info.name.data(),
                static_cast<unsigned long long>(kept->second));
  }
  std::fflush(stdout);
  return found.has_value();
}

/// One line of the table: how many seeds it took until an oracle found the plant, and which oracle.
/// If that oracle looks inside, also the first one that does not.
bool search(const PlantInfo& info, Hunt& hunt) {
  Range range = hunt.range;
  range.plant = info.plant;
  std::uint64_t seeds = 0;
  std::uint64_t seeds_inside = 0;
  std::optional<Report> inside;
  std::optional<Report> found;
  run_seeds(range, [&](const Report& report) {
    ++seeds;
    if (!report.violation) return true;
    if (!looks_inside(report.violation->oracle)) found = report;
    if (!found && !inside) {
      inside = report;
      seeds_inside = seeds;
    }
    return !found && !(inside && hunt.only_first);
  });
  if (inside) print_found(info, *inside, seeds_inside);
  if (found) print_found(info, *found, seeds);
  if (inside && !found) found = inside;
  if (!found) {
    std::printf("%-24s NOT FOUND in %llu seeds: %s\n", info.name.data(),
                static_cast<unsigned long long>(seeds), info.what.data());
  } else {
    hunt.found[std::string(info.name)] = found->seed;
  }
  std::fflush(stdout);
  return found.has_value();
}

int hunt_all(Hunt hunt, const std::string& seeds_file, const std::string& write_seeds) {
  if (!seeds_file.empty()) {
    Result<PlantSeeds> kept = read_plant_seeds(seeds_file);
    if (!kept) {
      std::fprintf(stderr, "c10dd-sim: %s\n", kept.error().detail.c_str());
      return kBadOption;
    }
    hunt.kept = std::move(*kept);
  }
  std::size_t hunted = 0;
  std::size_t by_search = 0;
  for (const PlantInfo& info : all_plants()) {
    if (hunt.plant != "all" && hunt.plant != info.name) continue;
    ++hunted;
    if (!found_by_kept_seed(info, hunt) && search(info, hunt)) ++by_search;
  }
  if (hunted == 0) {
    std::fprintf(stderr, "c10dd-sim: no plant %s; --list-plants lists them\n", hunt.plant.c_str());
    return kBadOption;
  }
  std::printf("%zu of %zu planted faults found, %zu of them by search%s\n", hunt.found.size(),
              hunted, by_search,
              seeds_file.empty() ? "" : "; without --seeds-file all are searched for");
  if (!write_seeds.empty()) {
    // The seeds of plants that were not hunted, or not found, stay.
    PlantSeeds seeds = hunt.found;
    seeds.merge(hunt.kept);
    if (Result<void> written = write_plant_seeds(write_seeds, seeds); !written) {
      std::fprintf(stderr, "c10dd-sim: %s\n", written.error().detail.c_str());
      return 1;
    }
  } else if (!seeds_file.empty() && by_search > 0) {
    std::printf("to keep the new seeds, run this again with --write-seeds %s\n",
                seeds_file.c_str());
  }
  return hunt.found.size() == hunted ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app("Deterministic simulation of c10dd: the core and the client in a seeded world");
  Hunt hunt;
  Range& range = hunt.range;
  range.jobs = std::max(1U, std::thread::hardware_concurrency());
  std::uint64_t seed = 0;
  std::string seeds_file;
  std::string write_seeds;
  bool list = false;
  bool print_all = false;
  const auto* one = app.add_option("--seed", seed, "simulate this seed");
  app.add_option("--seeds", range.count, "simulate so many seeds")->check(CLI::PositiveNumber);
  app.add_option("--from", range.from, "the first seed")->check(CLI::PositiveNumber);
  app.add_option("--jobs", range.jobs, "worker processes")->check(CLI::Range(1, 256));
  auto* plants =
      app.add_option("--plant", hunt.plant, "plant this fault, or all, one after the other");
  app.add_flag("--trace", print_all, "with --seed: print every event and call");
  auto* first = app.add_flag("--first", hunt.only_first,
                             "with --plant: stop at the first oracle that finds it");
  app.add_option("--seeds-file", seeds_file,
                 "with --plant and --first: try the seed that this file keeps for a fault, before "
                 "searching (default: no file, search for all)")
      ->needs(plants, first);
  app.add_option("--write-seeds", write_seeds,
                 "with --plant and --first: write the seeds that found the faults to this file")
      ->needs(plants, first);
  app.add_flag("--list-plants", list, "say what can be planted");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadOption;
  }
  if (list) {
    for (const PlantInfo& info : all_plants()) {
      std::printf("%-24s %s\n", info.name.data(), info.what.data());
    }
    return 0;
  }
  if (*one) {
    AnyPlant chosen = Plant::none;
    for (const PlantInfo& info : all_plants()) {
      if (info.name == hunt.plant) chosen = info.plant;
    }
    return run_one(seed, chosen, print_all);
  }
  if (!hunt.plant.empty()) {
    if (range.count == 1) range.count = 2000;
    return hunt_all(std::move(hunt), seeds_file, write_seeds);
  }
  return run_many(range);
}

}  // namespace
}  // namespace c10dd::sim

int main(int argc, char** argv) { return c10dd::sim::run(argc, argv); }
