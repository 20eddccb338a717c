// SPDX-License-Identifier: Apache-2.0
// The commands of c10ddctl.
#pragma once

#include "client/ctl/arguments.h"
#include "client/ctl/outcome.h"

namespace c10dd::ctl {

/// Asks the daemons, and blocks until they have replied or their time is over. The texts are
/// printable, whatever the daemons have sent.
Outcome run(const Arguments& arguments);

}  // namespace c10dd::ctl
