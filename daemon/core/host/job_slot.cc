// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_slot.h"

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/host/volatile_number.h"
#include "daemon/core/job/job.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {

JobSlot::JobSlot(JobHost& of, std::string job_name, std::string run_name, JobNumber its)
    : owner(of),
      name(std::move(job_name)),
      run(std::move(run_name)),
      number(its),
      is_volatile(is_volatile_number(its)) {}

JobSlot::~JobSlot() = default;

void JobSlot::end(const AttachmentRef& attachment, SteadyTime now) {
  if (attached.erase(attachment->from.session) > 0 && !attachment->from.observes) {
    if (--trainers == 0) quiet_since = now;
  }
  attachment->sink = nullptr;
}

namespace {

std::string described(const std::string& name, const std::string& run, JobNumber number) {
  const std::string of_run =
      run.empty() ? "" : format(" run \"{}\"", printable(run, limits::kNameShown));
  return format("job \"{}\"{} (number {})", printable(name, limits::kNameShown), of_run, number);
}

}  // namespace

std::string described(const JobSlot& slot) { return described(slot.name, slot.run, slot.number); }

std::string described(const LoadReport& load) {
  return described(load.name, load.run, load.number);
}

std::string progress_of(const LoadReport& load) {
  const std::string of = load.of_rows ? format(" of {}", *load.of_rows) : "";
  return format("{}{} rows ({} bytes) restored in {}", load.rows, of, load.bytes, human(load.took));
}

}  // namespace c10dd::core
