// SPDX-License-Identifier: Apache-2.0
// Writes the events of jobs to the log. deploy/README.md lists the log lines.
#pragma once

#include <string>

#include "daemon/core/effects.h"
#include "daemon/shard/diagnosis_pace.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Writes the log of one shard's jobs.
/// All functions are called on the shard's loop.
class EventLog {
 public:
  /// `cause`: see log_caused().
  void write(const std::string& cause, const std::string& job, const std::string& run,
             const core::Event& event);

 private:
  void write_diagnosis(const std::string& cause, const std::string& job, const std::string& run,
                       const core::Diagnosed& diagnosed);
  void write_end_of_diagnosis(const std::string& cause, const std::string& job,
                              const std::string& run, const core::DiagnosisEnded& ended);

  DiagnosisPace diagnoses_;
};

/// Logs the result of a checkpoint: its size, or the reason why it was not written.
/// Blocks while it reads the sizes of the files. Must not be called on a loop's thread.
void log_checkpoint(const std::string& path, const Result<void>& done);

}  // namespace c10dd::daemon
