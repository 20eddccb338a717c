// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/peer_signs.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace c10dd::daemon {

bool answers(const PeerSigns& signs) {
  const unsigned again = signs.unacked > 0 ? signs.retransmits : 0;
  return signs.silent < kSilence || signs.probes + again < 2;
}

std::chrono::milliseconds answers_for(const PeerSigns& signs) {
  return std::max(kSilence - signs.silent, std::chrono::milliseconds(0));
}

PeerSigns signs_of(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)),
          info.tcpi_probes, info.tcpi_unacked, info.tcpi_retransmits};
}

}  // namespace c10dd::daemon
