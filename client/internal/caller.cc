// SPDX-License-Identifier: Apache-2.0
#include "client/internal/caller.h"

#include <algorithm>
#include <utility>

namespace c10dd::client {
namespace {

thread_local const Caller* present = nullptr;

constexpr char kEnded[] = "the caller ended the call before the reply arrived";

bool asks() { return present != nullptr && present->go_on; }

}  // namespace

CallerScope::CallerScope(const Caller& caller) : outer_(std::exchange(present, &caller)) {}
CallerScope::~CallerScope() { present = outer_; }

Duration call_limit(Duration usual) {
  return present != nullptr ? present->limit.value_or(usual) : usual;
}

Duration until_asked(Duration wait) { return asks() ? std::min(wait, kAskCaller) : wait; }

bool caller_goes_on() { return !asks() || present->go_on(); }

Failure ended_by_caller() { return failure(Code::aborted, kEnded); }
bool is_ended_by_caller(const Failure& reason) {
  return reason.code == Code::aborted && reason.detail == kEnded;
}

}  // namespace c10dd::client
