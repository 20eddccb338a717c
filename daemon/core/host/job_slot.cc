// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_slot.h"

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/host/volatile_number.h"
#include "daemon/core/job/job.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

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

std::string described(const JobSlot& slot) {
  const std::string run =
      slot.run.empty() ? "" : format(" run \"{}\"", printable(slot.run, limits::kNameShown));
  return format("job \"{}\"{} (number {})", printable(slot.name, limits::kNameShown), run,
                slot.number);
}

}  // namespace c10dd::core
