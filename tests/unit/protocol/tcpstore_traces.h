// SPDX-License-Identifier: Apache-2.0
// Bytes that unmodified PyTorch clients and PyTorch's own servers have exchanged: one store of one
// client for each trace. A line has the bytes of one side: hexadecimal digits, or text in quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocol/types.h"

namespace c10dd::traces {

struct Line {
  bool from_client = false;
  Bytes bytes;
};

/// Reads `0a 0b "text"`.
inline Bytes bytes_of(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
  Bytes bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == '"') {
      const std::size_t end = text.find('"', i + 1);
      bytes.append(text.substr(i + 1, end - i - 1));
      i = end;
    } else {
      bytes.push_back(static_cast<char>(digit(text[i]) << 4 | digit(text[i + 1])));
      ++i;
    }
  }
  return bytes;
}

inline std::vector<Line> lines_of(std::string_view trace) {
  std::vector<Line> lines;
  while (!trace.empty()) {
    const std::string_view line = trace.substr(0, trace.find('\n'));
    trace.remove_prefix(std::min(line.size() + 1, trace.size()));
    if (!line.empty()) lines.push_back({line.front() == '>', bytes_of(line.substr(1))});
  }
  return lines;
}

/// Of PyTorch 2.14.1. The messages that PyTorch 2.6.0 also has are the same there.
inline constexpr std::string_view kV4 = R"(
> 00 CEF7853C 0D 16640000
< 16640000
> 04 0500000000000000 "init/" 0100000000000000
< 0100000000000000
> 01 0200000000000000 "/k" 0100000000000000 "v"
> 06 0100000000000000 0200000000000000 "/k"
< 00
> 03 0200000000000000 "/k"
< 0100000000000000 "v"
> 04 0400000000000000 "/ctr" 0500000000000000
< 0500000000000000
> 04 0400000000000000 "/ctr" F9FFFFFFFFFFFFFF
< FEFFFFFFFFFFFFFF
> 02 0300000000000000 "/cs" 0000000000000000 0100000000000000 "x"
< 0100000000000000 "x"
> 02 0300000000000000 "/cs" 0100000000000000 "y" 0100000000000000 "z"
< 0100000000000000 "x"
> 02 0300000000000000 "/no" 0100000000000000 "y" 0100000000000000 "z"
< 0100000000000000 "y"
> 07
< 0400000000000000
> 08 0200000000000000 "/k"
< 0100000000000000
> 08 0200000000000000 "/k"
< 0000000000000000
> 05 0000000000000000
< 00
> 05 0100000000000000 0200000000000000 "/k"
< 01
> 06 0200000000000000 0500000000000000 "/nope" 0400000000000000 "/ctr"
> 0C
< 01
> 09 0200000000000000 "/a" 0200000000000000 "12"
> 09 0200000000000000 "/a" 0100000000000000 "3"
> 0B 0200000000000000 0300000000000000 "/m1" 0100000000000000 "1" 0300000000000000 "/m2" 0200000000000000 "22"
> 06 0200000000000000 0300000000000000 "/m1" 0300000000000000 "/m2"
< 00
> 0A 0300000000000000 0300000000000000 "/m1" 0300000000000000 "/m2" 0200000000000000 "/a"
< 0100000000000000 "1" 0200000000000000 "22" 0300000000000000 "123"
> 11
< 0600000000000000 0200000000000000 "/a" 0300000000000000 "/cs" 0400000000000000 "/ctr" 0300000000000000 "/m1" 0300000000000000 "/m2" 0500000000000000 "init/"
> 12 0400000000000000 "/bar" 0100000000000000
< 00
> 12 0500000000000000 "/bar2" 0200000000000000
> 0C
< 01
> 03 0500000000000000 "/bar2"
< 0100000000000000 "1"
> 0E 0200000000000000 "/q" 0100000000000000 "i"
> 10 0200000000000000 "/q"
< 0100000000000000
> 0F 0200000000000000 "/q"
< 0100000000000000 0100000000000000 "i"
> 0F 0200000000000000 "/q"
< 0000000000000000
)";

/// Of PyTorch 1.13.1. After a time-out of a wait, the client sends nothing.
inline constexpr std::string_view kL0 = R"(
> 03 0500000000000000 "init/" 0100000000000000
< 0100000000000000
> 00 0200000000000000 "/k" 0100000000000000 "v"
> 05 0100000000000000 0200000000000000 "/k"
< 00
> 02 0200000000000000 "/k"
< 0100000000000000 "v"
> 01 0300000000000000 "/cs" 0000000000000000 0100000000000000 "x"
< 0100000000000000 "x"
> 04 0100000000000000 0200000000000000 "/k"
< 00
> 06
< 0300000000000000
> 05 0100000000000000 0500000000000000 "/nope"
> 03 0400000000000000 "/ctr" 0100000000000000
< 0100000000000000
)";

/// The callback connection of PyTorch 1.13.1, if a program uses it.
inline constexpr std::string_view kL0Callbacks = R"(
> 07 0200000000000000 "/k"
< 03
)";

/// Of PyTorch 2.1.2, by its header of the server.
inline constexpr std::string_view kL1 = R"(
> 03 0500000000000000 "init/" 0100000000000000
< 0100000000000000
> 0A 0200000000000000 0300000000000000 "/m1" 0100000000000000 "1" 0300000000000000 "/m2" 0200000000000000 "22"
> 09 0200000000000000 0300000000000000 "/m1" 0300000000000000 "/m2"
< 0100000000000000 "1" 0200000000000000 "22"
> 08 0300000000000000 "/m1" 0100000000000000 "2"
> 07 0300000000000000 "/m2"
< 0100000000000000
> 02 0300000000000000 "/m1"
< 0200000000000000 "12"
> 05 0100000000000000 0500000000000000 "/nope"
> 0B
< 01
)";

}  // namespace c10dd::traces
