// SPDX-License-Identifier: Apache-2.0
// The builder of transactions. It checks nothing, because the daemon checks everything.
#include "client/job_store.h"

namespace c10dd {

Transaction& Transaction::if_exists(std::string key) {
  conditions_.push_back({Condition::Kind::exists, std::move(key), {}, 0});
  return *this;
}

Transaction& Transaction::if_absent(std::string key) {
  conditions_.push_back({Condition::Kind::absent, std::move(key), {}, 0});
  return *this;
}

Transaction& Transaction::if_value(std::string key, std::string value) {
  conditions_.push_back({Condition::Kind::value_is, std::move(key), std::move(value), 0});
  return *this;
}

Transaction& Transaction::if_revision(std::string key, std::uint64_t revision) {
  conditions_.push_back({Condition::Kind::revision_is, std::move(key), {}, revision});
  return *this;
}

Transaction& Transaction::set(std::string key, std::string value, SetOptions options) {
  actions_.push_back({Action::Kind::set, std::move(key), std::move(value), 0, options});
  return *this;
}

Transaction& Transaction::remove(std::string key) {
  actions_.push_back({Action::Kind::remove, std::move(key), {}, 0, {}});
  return *this;
}

Transaction& Transaction::add(std::string key, std::int64_t delta) {
  actions_.push_back({Action::Kind::add, std::move(key), {}, delta, {}});
  return *this;
}

Transaction& Transaction::append(std::string key, std::string value) {
  actions_.push_back({Action::Kind::append, std::move(key), std::move(value), 0, {}});
  return *this;
}

Transaction& Transaction::push(std::string queue, std::string value) {
  actions_.push_back({Action::Kind::push, std::move(queue), std::move(value), 0, {}});
  return *this;
}

}  // namespace c10dd
