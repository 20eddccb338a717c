// SPDX-License-Identifier: Apache-2.0
// Faults planted on purpose, one at a time, to show that the oracles find them. Those here are at
// the boundaries that the simulator's own shells build; those inside the core are in
// {daemon,client}/core/planted.h, compiled in for the simulator only. A file keeps the seed that
// found each fault last, so that a test need not search again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "client/core/planted.h"
#include "daemon/core/planted.h"
#include "protocol/error.h"

namespace c10dd::sim {

enum class Plant {
  none,
  reply_row_lost,
  effect_row_lost,
  erase_rows_lost,
  delivery_rows_lost,
  batch_reversed,
  fences_ignored,
  error_is_success,
  error_is_failure,
  acked_below_too_high,
  retry_is_new_call,
  watch_event_lost,
  watch_event_twice,
  rollback_not_noticed,
  beats_not_counted,
  list_row_lost,
  load_unconfirmed,
  expiry_ignored,
  other_job_allowed,
  recheck_left_out,
  newer_token_not_shown,
};

using AnyPlant = std::variant<Plant, core::Planted, client::Planted>;

struct PlantInfo {
  AnyPlant plant;
  std::string_view name;
  std::string_view what;
};

std::span<const PlantInfo> all_plants();

/// The planted fault of this process; one at a time.
void plant(AnyPlant one);
bool planted(Plant one);

/// The seed that found each plant last, by the name of the plant.
using PlantSeeds = std::map<std::string, std::uint64_t, std::less<>>;

/// Reads a file with a line "PLANT SEED" for each plant that has a seed, in any order. Skips empty
/// lines, and lines that begin with '#'. Fails at the first line that is something else, with its
/// number.
Result<PlantSeeds> read_plant_seeds(const std::string& path);
/// Writes such a file, sorted by plant.
Result<void> write_plant_seeds(const std::string& path, const PlantSeeds& seeds);

}  // namespace c10dd::sim
