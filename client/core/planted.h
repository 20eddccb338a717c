// SPDX-License-Identifier: Apache-2.0
// Faults that are planted in the pure half of the client on purpose, as in daemon/core/planted.h.
#pragma once

namespace c10dd::client {

enum class Planted {
  // in the node proxy
  local_request_twice,    ///< fault: a request of a local client is passed on twice
  local_reply_lost,       ///< fault: the reply to an add is not handed to the local client
  local_sum_wrong,        ///< fault: an add gets a sum that is too small by one
  local_wait_early,       ///< fault: a wait gets its reply before the key exists
  local_wait_not_ended,   ///< fault: a wait that its client has given up goes on
  local_failure_success,  ///< fault: a request that has failed gets the reply of one that has not

  // in the connection
  load_is_silence,  ///< fault: that the daemon loads the job does not count as a sign of life

  // in the reports of process groups
  old_group_rests,   ///< fault: a group with an old operation is reported as rarely as others
  ended_untold,      ///< fault: the last collective that has ended is not told
  hopeless_ignored,  ///< fault: a group that can never go on is not given up
};

#ifdef C10DD_PLANTED
bool planted(Planted one);
#else
constexpr bool planted(Planted) { return false; }
#endif

}  // namespace c10dd::client
