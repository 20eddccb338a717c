// SPDX-License-Identifier: Apache-2.0
// digits: runs one rank of a data-parallel training job, or all ranks as threads, or the same
// training in one process alone. Prints lines `word key=value ...`, which README.md lists. Exit
// codes: 0 the training has finished, 64 bad option, 1 any other error.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10dd/client.h>
#include "examples/digits/dataset.h"
#include "examples/digits/elastic_training.h"
#include "examples/digits/network.h"
#include "examples/digits/rank_team.h"
#include "examples/digits/training.h"

namespace c10dd::digits {
namespace {

constexpr int kUsage = 64;  // exit code, as in sysexits.h
const std::vector<std::size_t> kWidths = {kPixels, 256, 256, 256, 256, kClasses};

struct Options {
  std::string data = "examples/digits/data/digits.csv";
  TrainingOptions training;
  // So large that each layer fills one bucket, which does not wait for the next layer.
  TeamOptions team = {.reducer = {.first_bucket_cap_mb = 0.125, .bucket_cap_mb = 0.6}};
  std::string url;
  std::string run;
  Rank rank = 0;
  Rank world_size = 1;
  Rank threads = 0;
  bool single = false;
  std::string elastic;  ///< MIN:MAX ranks
  double last_call = 1;
  double ttl = 2.5;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--data", o.data, "file with the digits, one image per line")
      ->capture_default_str();
  app.add_option("--epochs", o.training.epochs, "number of epochs")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", o.training.batch, "images per step, over all ranks")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", o.training.learning_rate, "learning rate of SGD")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--momentum", o.training.momentum, "momentum of SGD")
      ->capture_default_str()
      ->check(CLI::Range(0., 1.));
  app.add_option("--seed", o.training.seed, "seed for the weights and the order of the images")
      ->capture_default_str();
  app.add_option("--backend", o.team.backend,
                 "backend of the collectives: gloo, or loopback with --threads")
      ->capture_default_str();
  app.add_option("--first-bucket-mb", o.team.reducer.first_bucket_cap_mb,
                 "size of the first gradient bucket, in MB")
      ->capture_default_str();
  app.add_option("--bucket-mb", o.team.reducer.bucket_cap_mb,
                 "size of the other gradient buckets, in MB")
      ->capture_default_str();
  app.add_option("--url", o.url, "URL of the daemon and the job: c10dd://host:port/job")
      ->envname("C10DD_URL");
  app.add_option("--run", o.run, "name of this run of the job")->envname("C10DD_RUN");
  app.add_option("--rank", o.rank, "rank of this process, from 0")->envname("RANK");
  app.add_option("--world-size", o.world_size, "number of ranks")
      ->envname("WORLD_SIZE")
      ->check(CLI::PositiveNumber);
  auto* threads =
      app.add_option("--threads", o.threads, "run this many ranks as threads of this process");
  auto* single =
      app.add_flag("--single", o.single, "train in one process without a daemon, as a reference")
          ->excludes(threads);
  app.add_option("--elastic", o.elastic,
                 "number of ranks, as MIN:MAX: ranks may join and leave, the daemon numbers them")
      ->excludes(threads)
      ->excludes(single);
  app.add_option("--last-call", o.last_call,
                 "seconds to wait for more ranks after MIN have joined (with --elastic)")
      ->capture_default_str();
  app.add_option("--ttl", o.ttl,
                 "seconds of silence after which a rank counts as lost (with --elastic)")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
}

std::chrono::nanoseconds seconds(double count) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(count * 1e9));
}

/// Returns what --elastic, --last-call and --ttl set. `min` is 0 if --elastic is not MIN:MAX.
RendezvousOptions rendezvous_of(const Options& o) {
  RendezvousOptions options;
  options.group = "digits";
  options.min = 0;
  options.last_call = seconds(o.last_call);
  options.ttl = seconds(o.ttl);
  char rest = 0;
  if (std::sscanf(o.elastic.c_str(), "%u:%u%c", &options.min, &options.max, &rest) != 2) {
    options.min = 0;
  }
  return options;
}

/// Returns what is wrong with the options; empty: nothing.
std::string wrong_with(const Options& o) {
  if (o.single) return {};
  if (o.url.empty()) {
    return "the URL of the daemon is missing: set C10DD_URL or --url, or train alone with --single";
  }
  if (!o.elastic.empty()) {
    const RendezvousOptions size = rendezvous_of(o);
    if (size.min >= 1 && size.min <= size.max) return {};
    return "--elastic " + o.elastic + " is not MIN:MAX with 1 <= MIN <= MAX, such as 2:4";
  }
  if (o.threads == 0 && o.rank >= o.world_size) {
    return "RANK is " + std::to_string(o.rank) + ", but WORLD_SIZE is " +
           std::to_string(o.world_size) + ": ranks go from 0 to WORLD_SIZE - 1";
  }
  if (o.threads == 0 && o.world_size > 1 && o.team.backend == "loopback") {
    return "backend loopback connects only threads of one process: use --threads or --backend gloo";
  }
  return {};
}

void print_result(std::size_t rank, const Network& network, const std::vector<Epoch>& epochs) {
  for (const Epoch& epoch : epochs) {
    std::printf("loss rank=%zu epoch=%zu value=%.17g\n", rank, epoch.number, epoch.loss);
  }
  std::printf("result rank=%zu parameters=%016" PRIx64 " test_accuracy=%.6f\n", rank,
              hash(network.parameters()), epochs.back().test_accuracy);
}

void print_coordination(std::size_t rank, Client& client, std::int64_t images) {
  for (const CollectiveCount& kind : client.recorded()) {
    std::printf("collective rank=%zu process_group=%s collective=%s backend=%s count=%" PRIu64
                " failures=%" PRIu64 " payload_bytes=%" PRIu64 "\n",
                rank, kind.process_group.c_str(), kind.collective.c_str(), kind.backend.c_str(),
                kind.count, kind.failures, kind.payload_bytes);
  }
  const ClientStats stats = client.stats();
  std::printf("client rank=%zu calls=%" PRIu64 " failures=%" PRIu64 " reissued=%" PRIu64
              " connects=%" PRIu64 " away_seconds=%.3f images=%" PRId64 "\n",
              rank, stats.calls, stats.failures, stats.reissued, stats.connects,
              std::chrono::duration<double>(stats.away).count(), images);
}

void print_reducer(std::size_t rank, const ddp::ReducerStats& stats) {
  std::printf("reducer rank=%zu buckets=%zu bytes=%zu steps=%" PRIu64
              " communication_seconds=%.3f exposed_seconds=%.3f overlap=%.3f\n",
              rank, stats.buckets, stats.bytes, stats.steps, stats.communication_seconds,
              stats.exposed_seconds, stats.overlap());
}

void train_as_rank(const Options& o, const Split& data, Rank rank, Rank world_size) {
  ClientOptions identity;
  identity.run = o.run;
  identity.rank = rank;
  identity.world_size = world_size;
  // Every rank starts with different weights, so equal weights at the end show that the reducer has
  // broadcast them.
  Network network(kWidths, o.training.seed + rank);
  RankTeam team(Client::connect(o.url, identity), rank, world_size, network, o.team);
  const ddp::ReducerStats planned = team.reducer_stats();
  std::printf("buckets rank=%u per_step=%zu bytes=%zu\n", rank, planned.buckets, planned.bytes);
  const std::vector<Epoch> epochs = train(network, data, o.training, team);
  const std::int64_t images = team.finish();
  print_result(rank, network, epochs);
  print_reducer(rank, team.reducer_stats());
  print_coordination(rank, team.client(), images);
}

void train_elastically(const Options& o, const Split& data) {
  ClientOptions identity;
  identity.run = o.run;
  Network network(kWidths, o.training.seed);
  const auto client = Client::connect(o.url, identity);
  const ElasticOutcome outcome = train_elastic(client, rendezvous_of(o), o.team.backend,
                                               o.team.reducer, network, data, o.training);
  client->flush_report();
  std::printf("elastic rank=%u generations=%" PRIu64 "\n", outcome.rank, outcome.generations);
  if (!outcome.epochs.empty()) print_result(outcome.rank, network, outcome.epochs);
}

void train_as_threads(const Options& o, const Split& data) {
  std::vector<std::future<void>> ranks;
  for (Rank rank = 0; rank < o.threads; ++rank) {
    ranks.push_back(
        std::async(std::launch::async, [&, rank] { train_as_rank(o, data, rank, o.threads); }));
  }
  for (std::future<void>& rank : ranks) rank.get();
}

void train_alone(const Options& o, const Split& data) {
  Network network(kWidths, o.training.seed);
  Solo team(network);
  print_result(0, network, train(network, data, o.training, team));
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a network on handwritten digits.", "digits");
  declare(app, options);
  try {
    app.parse(argc, argv);
    if (const std::string wrong = wrong_with(options); !wrong.empty()) {
      std::fprintf(stderr, "digits: %s\n", wrong.c_str());
      return kUsage;
    }
    const Split data = split(load_digits(options.data));
    std::printf("data train=%zu test=%zu\n", data.train.size(), data.test.size());
    if (options.single) {
      train_alone(options, data);
    } else if (!options.elastic.empty()) {
      train_elastically(options, data);
    } else if (options.threads > 0) {
      train_as_threads(options, data);
    } else {
      train_as_rank(options, data, options.rank, options.world_size);
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: rank %u: %s\n", options.rank, error.what());
    return 1;
  }
}

}  // namespace
}  // namespace c10dd::digits

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // the demo reads the lines during the training
  return c10dd::digits::run(argc, argv);
}
