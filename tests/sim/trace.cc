// SPDX-License-Identifier: Apache-2.0
// FNV-1a by words; text is made only on request.
#include "tests/sim/trace.h"

#include <cstdio>
#include <cstring>

#include "protocol/utf8.h"

namespace c10dd::sim {

void Trace::mix(std::uint64_t value) {
  hash_ = (hash_ ^ value) * 0x100000001B3;
  hash_ ^= hash_ >> 29;
}

void Trace::note(TimePoint at, const char* what, std::uint64_t a, std::uint64_t b,
                 std::string_view detail) {
  mix(static_cast<std::uint64_t>(at.time_since_epoch().count()));
  for (const char* c = what; *c != '\0'; ++c) mix(static_cast<unsigned char>(*c));
  mix(a);
  mix(b);
  mix(detail.size());
  for (std::size_t i = 0; i < detail.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, detail.data() + i, std::min(sizeof word, detail.size() - i));
    mix(word);
  }
  Event& event = ring_[events_++ % kKept];
  event.at = at;
  event.what = what;
  event.a = a;
  event.b = b;
  event.detail.assign(detail);
  if (printing_) std::printf("%s\n", text_of(event).c_str());
}

std::string Trace::text_of(const Event& event) {
  char head[96];
  std::snprintf(head, sizeof head, "%13.6f  %-18s %6llu %6llu  ",
                static_cast<double>(event.at.time_since_epoch().count()) / 1e9, event.what,
                static_cast<unsigned long long>(event.a), static_cast<unsigned long long>(event.b));
  return head + printable(event.detail, 160);
}

std::vector<std::string> Trace::last() const {
  std::vector<std::string> lines;
  for (std::uint64_t i = events_ > kKept ? events_ - kKept : 0; i < events_; ++i) {
    lines.push_back(text_of(ring_[i % kKept]));
  }
  return lines;
}

}  // namespace c10dd::sim
