// SPDX-License-Identifier: Apache-2.0
// Decides whether the host of a TCP peer answers, by what the kernel knows of the connection. The
// peer's kernel acknowledges data and keepalive probes for its process, also if the process is
// stopped or does not read. So only a host that is down or cut off does not answer.
#pragma once

#include <chrono>
#include <cstdint>

namespace c10dd::daemon {

/// What the kernel knows of a peer: a part of TCP_INFO.
struct PeerSigns {
  std::chrono::milliseconds silent{0};  ///< since the newest packet of the peer with an effect
  unsigned probes = 0;                  ///< sent since then: keepalive, or for a closed window
  unsigned unacked = 0;                 ///< packets that the peer has not acknowledged
  unsigned retransmits = 0;             ///< how often the first of them was sent again
};

/// An idle peer gets probes at 5 s and 10 s, see Stream::outlive_outages(). The rest is for the
/// kernel's timers, which are up to 0.6 s late, and for the reply.
constexpr std::chrono::milliseconds kSilence{11'000};

/// Returns false if the peer has been silent for kSilence, although it should have answered two
/// packets or more. One is not enough: it may have been lost, or have just been sent, because a
/// peer with a closed window gets probes at intervals of up to two minutes.
bool answers(const PeerSigns& signs);

/// Returns how long it takes at least until the peer does not answer. Until then nobody needs to
/// ask the kernel again.
std::chrono::milliseconds answers_for(const PeerSigns& signs);

/// Asks the kernel for the signs. A socket of another kind has no signs, so it answers.
PeerSigns signs_of(int socket);

}  // namespace c10dd::daemon
