// SPDX-License-Identifier: Apache-2.0
// A trainer as a user writes it. Its first word says what it does:
//   meet URL SIZE                              gets its rank from a rendezvous, averages a gradient
//   work URL RANK SIZE LAUNCH STEPS TIMEOUT_S  is told its rank; fails if it meets another launch
// Prints a line for each thing that happens, behind the time of the steady clock.
#include <c10dd/c10dd.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void say(const std::string& text) {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  std::printf("%.3f %s\n", now.count(), text.c_str());
  std::fflush(stdout);
}

void require(bool holds, const std::string& text) {
  if (!holds) throw std::logic_error(text);
}

void meet(const std::string& url, std::uint32_t size) {
  const auto client = c10dd::Client::connect(url);
  const auto team = client->rendezvous({.group = "trainers", .min = size, .max = size});
  const auto group = c10dd::ProcessGroup::open(team);
  const auto rank = static_cast<float>(team->rank());

  std::vector<float> values(1000, rank);
  group->all_reduce(c10dd::tensor_of(values));

  std::vector<float> weights(3, rank);
  c10dd::ddp::Reducer reducer(
      *group, {{.name = "w", .value = c10dd::tensor_of(weights), .shape = {weights.size()}}});
  auto* gradient = static_cast<float*>(reducer.gradient(0).data);
  for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] = rank;
  reducer.mark_ready(0);
  reducer.finish();

  say("met rank=" + std::to_string(team->rank()) + " size=" + std::to_string(team->size()) +
      " sum=" + std::to_string(values.back()) + " weight=" + std::to_string(weights.back()) +
      " gradient=" + std::to_string(gradient[2]));
  team->finish();
}

struct Place {
  std::uint32_t rank;
  std::uint32_t size;
  std::string launch;
  std::chrono::nanoseconds timeout;
};

void step(c10dd::Client& client, c10dd::ProcessGroup& group, const Place& own) {
  std::vector<double> sum{std::stod(own.launch)};
  group.all_reduce(c10dd::tensor_of(sum));
  require(sum[0] == std::stod(own.launch) * own.size, "all_reduce met another launch");
  client.barrier("step", {.rank = own.rank, .world_size = own.size, .timeout = own.timeout});
}

void work(const std::string& url, const Place& own, int steps) {
  const auto client = c10dd::Client::connect(url, {.rank = own.rank, .world_size = own.size});
  say("arrives");
  client->barrier("start", {.rank = own.rank, .world_size = own.size, .timeout = own.timeout});
  say("released");
  const auto launches = client->exchange(
      "launch", {own.launch}, {.rank = own.rank, .world_size = own.size, .timeout = own.timeout});
  for (const std::string& launch : launches) {
    require(launch == own.launch, "exchange met launch " + launch);
  }
  const auto group =
      c10dd::ProcessGroup::open(client, {.rank = own.rank, .size = own.size},
                                {.timeout = own.timeout, .open_timeout = own.timeout});
  for (int i = 0; i < steps; ++i) {
    step(*client, *group, own);
    say("step " + std::to_string(i));
  }
  const c10dd::ClientStats stats = client->stats();
  say("done connects=" + std::to_string(stats.connects) +
      " sessions_lost=" + std::to_string(stats.sessions_lost));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "meet") {
      meet(words[1], static_cast<std::uint32_t>(std::stoul(words[2])));
    } else if (words.size() == 7 && words[0] == "work") {
      work(words[1],
           {.rank = static_cast<std::uint32_t>(std::stoul(words[2])),
            .size = static_cast<std::uint32_t>(std::stoul(words[3])),
            .launch = words[4],
            .timeout = std::chrono::seconds(std::stol(words[6]))},
           std::stoi(words[5]));
    } else {
      std::fprintf(stderr,
                   "usage: trainer meet URL SIZE\n"
                   "       trainer work URL RANK SIZE LAUNCH STEPS TIMEOUT_S\n");
      return 64;
    }
    return 0;
  } catch (const c10dd::Error& error) {
    say("failed: " + std::string(c10dd::name_of(error.code())) + ": " + error.what());
  } catch (const std::exception& error) {
    say("failed: " + std::string(error.what()));
  }
  return 1;
}
