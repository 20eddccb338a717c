// SPDX-License-Identifier: Apache-2.0
#include "client/core/addresses.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/core/backoff.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kAddressBytes = limits::kNameBytes + 8;  // brackets, colon and port
constexpr std::size_t kFleet = limits::kDaemons * limits::kAdvertised;
constexpr std::size_t kNamed = 6;  // addresses in an error text

/// Returns the end of the path that begins and ends with the same address, as a text: a -> b -> a.
/// Returns an empty text if the path has no address twice.
std::string circle(const std::vector<std::string>& path) {
  if (path.empty()) return "";
  const auto before = std::find(std::next(path.rbegin()), path.rend(), path.back());
  if (before == path.rend()) return "";
  std::string text = *before;
  for (auto at = before.base(); at != path.end(); ++at) text += " -> " + *at;
  return text;
}

}  // namespace

Addresses::Addresses(std::vector<std::string> given, std::uint64_t seed) : given_(given.size()) {
  C10DD_ASSERT(!given.empty());
  for (std::string& address : given) known_.push_back({std::move(address)});
  at_ = mixed(seed) % given_;
  current_ = known_[at_].address;
}

bool Addresses::several() const {
  if (!targets_.empty()) return true;
  return std::ranges::any_of(known_, [&](const Known& k) { return k.address != current_; });
}

Duration Addresses::patience(Duration most) const {
  return several() ? std::min(patience_, most) : most;
}

/// Returns the well-formed, printable addresses among the first `most` of a reply, each once.
std::vector<std::string> Addresses::usable(std::span<const std::string> addresses,
                                           std::size_t most) const {
  std::vector<std::string> good;
  for (const std::string& address : addresses.first(std::min(addresses.size(), most))) {
    const Result<AddressParts> parts = split_address(address);
    const bool whole = parts && parts->port && !parts->port->empty();
    if (!whole || address.size() > kAddressBytes) continue;
    if (other_machine_ && is_loopback(parts->host)) continue;
    if (printable(address, address.size()) != address) continue;
    if (std::ranges::find(good, address) == good.end()) good.push_back(address);
  }
  return good;
}

std::string Addresses::ignored(const std::vector<std::string>& targets) const {
  for (const std::string& address : targets) {
    const Result<AddressParts> parts = split_address(address);
    if (other_machine_ && parts && is_loopback(parts->host)) return address;
  }
  return "";
}

Addresses::Known* Addresses::find(const std::string& address) {
  for (std::vector<Known>* list : {&known_, &others_}) {
    const auto found = std::ranges::find(*list, address, &Known::address);
    if (found != list->end()) return &*found;
  }
  return nullptr;
}

/// Stores the outcome of the last attempt at current().
void Addresses::note(std::string why, bool tried) {
  Known* known = find(current_);
  if (known == nullptr) {  // a daemon that a newer Welcome does not name
    if (others_.size() == kRedirectTargets) others_.erase(others_.begin());
    known = &others_.emplace_back(Known{current_});
  }
  known->why = std::move(why);
  known->tried = tried;
}

void Addresses::go(std::string address) {
  current_ = std::move(address);
  const auto here = std::ranges::find(known_, current_, &Known::address);
  if (here != known_.end()) at_ = static_cast<std::size_t>(here - known_.begin());
}

void Addresses::stay(std::string why) { note(std::move(why), false); }

bool Addresses::leave(std::string why, bool slow) {
  note(std::move(why), true);
  path_.clear();
  if (slow) slow_ = current_;
  patient_ = patient_ || slow;
  if (!targets_.empty()) {
    go(std::exchange(targets_.front(), {}));
    targets_.erase(targets_.begin());
    return true;
  }
  const std::size_t next = (at_ + 1) % known_.size();
  for (std::size_t step = 0; step < known_.size(); ++step) {
    const Known& known = known_[(next + step) % known_.size()];
    if (known.tried) continue;
    go(known.address);
    return true;
  }
  for (Known& known : known_) known.tried = false;
  if (std::exchange(patient_, false) && several())
    patience_ = std::min(2 * patience_, kPatienceMax);
  go(known_[next].address);
  return false;
}

bool Addresses::redirect(const std::string& why, const std::vector<std::string>& targets) {
  std::vector<std::string> good = usable(targets, kRedirectTargets);
  if (good.empty()) return false;
  note(why, true);
  if (path_.empty()) path_.push_back(current_);
  path_.push_back(good.front());
  if (path_.size() > kRedirectTargets) path_.erase(path_.begin());
  redirects_ = std::min(redirects_ + 1, kQuickRedirects + 1);
  go(std::exchange(good.front(), {}));
  good.erase(good.begin());
  targets_ = std::move(good);
  return true;
}

void Addresses::welcome(const std::vector<std::string>& fleet) {
  others_.clear();
  targets_.clear();
  path_.clear();
  known_.resize(given_);
  for (Known& known : known_) known = {std::move(known.address)};
  for (std::string& address : usable(fleet, kFleet)) {
    if (find(address) == nullptr) known_.push_back({std::move(address)});
  }
  go(current_);
  // A daemon that was left because it was slow, and serves the job after all, gets more time.
  patience_ = slow_ == current_ ? std::min(2 * patience_, kPatienceMax) : kPatience;
  slow_.clear();
  patient_ = false;
}

std::string Addresses::absence(Duration away, const std::string& why, bool denied) const {
  std::string names;
  std::string reasons;
  std::string last = current_;
  std::size_t tried = 0;
  for (const std::vector<Known>* list : {&known_, &others_}) {
    for (const auto& [address, outcome, once] : *list) {
      if (outcome.empty() || ++tried > kNamed) continue;
      last = address;
      names += (names.empty() ? "" : ", ") + address;
      reasons += format("{}{}: {}", reasons.empty() ? "" : "; ", address, outcome);
    }
  }
  const std::string loop = circle(path_);
  if (tried < 2) {
    return format("the daemon at {} has {} for {} ({}{})", last,
                  denied ? "refused this client" : "not been reachable", human(away), why,
                  loop.empty() ? "" : "; the redirects lead in a circle: " + loop);
  }
  if (tried > kNamed) names += format(" and {} more", tried - kNamed);
  if (!loop.empty()) reasons += "; the redirects lead in a circle: " + loop;
  return format("the daemons at {} have not been reachable for {} ({})", names, human(away),
                reasons);
}

}  // namespace c10dd::client
