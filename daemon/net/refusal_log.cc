// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/refusal_log.h"

#include "daemon/shard/caused_log.h"
#include "protocol/address.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kLoggedBytes = 512;

}  // namespace

void log_refused(std::string_view protocol, std::string_view peer, const Failure& reason) {
  const auto address = split_address(peer);
  log_caused(address ? address->host : peer, LogLevel::warn,
             "event=refused{} peer={} code={} detail={}", OptionalField{"protocol", protocol}, peer,
             name_of(reason.code), Sentence{printable(reason.detail, kLoggedBytes)});
}

}  // namespace c10dd::daemon
