// SPDX-License-Identifier: Apache-2.0
// Reports of process groups, for tests: what a rank has opened, and how far it has come.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "protocol/activity_ops.h"

namespace c10dd::core {

inline OpenedGroup opened_group(std::uint64_t id, Rank rank, std::uint32_t size,
                                const std::string& name = "dp") {
  return {id, name, name, 1, size, rank, rank};
}

inline UnfinishedOperation unfinished(std::uint64_t sequence, Duration age,
                                      const std::string& name = "all_reduce",
                                      const std::string& arguments = "of 8 float32 sum") {
  UnfinishedOperation one;
  one.begun = true;
  one.sequence = sequence;
  one.age = age;
  one.name = name;
  one.arguments = arguments;
  return one;
}

inline UnfinishedOperation unfinished_message(bool sends, std::uint64_t sequence, Duration age,
                                              std::int64_t peer) {
  UnfinishedOperation one = unfinished(sequence, age, sends ? "send" : "recv", "of 8 uint8");
  one.kind = sends ? UnfinishedOperation::Kind::send : UnfinishedOperation::Kind::receive;
  one.peer = peer;
  return one;
}

/// A rank that has issued so many collectives, all of which have ended.
inline GroupActivity ended(std::uint64_t id, std::uint64_t issued) {
  GroupActivity group;
  group.process_group = id;
  group.collectives.issued = issued;
  return group;
}

/// A rank that is in an operation, the newest that it has issued.
inline GroupActivity inside(std::uint64_t id, const UnfinishedOperation& one) {
  GroupActivity group;
  group.process_group = id;
  const bool message = one.kind != UnfinishedOperation::Kind::collective;
  (message ? group.messages : group.collectives) = {one.sequence + 1, one.begun ? 0U : 1U, 1};
  group.oldest = {one};
  return group;
}

inline Activity opens(const std::vector<OpenedGroup>& groups) {
  Activity activity;
  activity.opened = groups;
  return activity;
}

inline Activity tells(const std::vector<GroupActivity>& groups) {
  Activity activity;
  activity.groups = groups;
  return activity;
}

}  // namespace c10dd::core
