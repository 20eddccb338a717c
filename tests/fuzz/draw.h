// SPDX-License-Identifier: Apache-2.0
// Fills the fields of any described struct from a fuzzer's bytes, so that new operations are
// fuzzed as soon as they are in protocol/ops.h. Most values come from small sets, so that keys,
// ranks and sequences meet each other; some are at the edges of what the wire can carry.
#pragma once

#include <boost/describe/enumerators.hpp>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "protocol/fields.h"
#include "tests/fuzz/input.h"

namespace c10dd::fuzz {

inline constexpr std::string_view kTexts[] = {"a",
                                              "b",
                                              "ab",
                                              "abc",
                                              "b/1",
                                              "b/2",
                                              "",
                                              "0",
                                              "7",
                                              "-1",
                                              "9223372036854775807",
                                              "-9223372036854775808",
                                              "007",
                                              std::string_view("\0\xFF", 2),
                                              "\xC3\xA9",
                                              "world"};
inline constexpr Duration kDurations[] = {Duration(0),
                                          Duration(1),
                                          std::chrono::milliseconds(1),
                                          std::chrono::milliseconds(10),
                                          std::chrono::milliseconds(100),
                                          std::chrono::seconds(1),
                                          std::chrono::seconds(3),
                                          std::chrono::seconds(5),
                                          std::chrono::seconds(30),
                                          std::chrono::minutes(1),
                                          std::chrono::minutes(10),
                                          std::chrono::hours(1),
                                          std::chrono::hours(24 * 30),
                                          std::chrono::hours(8760),
                                          Duration(-1),
                                          std::chrono::hours(-1),
                                          std::chrono::hours(876'000),
                                          Duration::max(),
                                          Duration::min()};

// Members meet where they name the same group and give the same policy.
inline constexpr std::string_view kGroups[] = {"a", "b"};
inline constexpr std::string_view kWorlds[] = {"", "a", "b"};
inline constexpr Duration kCall = std::chrono::milliseconds(100);
inline constexpr RendezvousPolicy kPolicies[] = {
    {1, 2, Duration(0), Duration(0), Duration(0), false},
    {2, 2, Duration(0), Duration(0), Duration(0), false},
    {2, 3, kCall, Duration(0), Duration(0), false},
    {1, 4, kCall, Duration(0), Duration(0), false},
    {3, 3, kCall, std::chrono::seconds(1), std::chrono::seconds(1), false},
    {1, 3, kCall, Duration(0), Duration(0), true},
    {2, 4, kCall, Duration(0), Duration(0), true},
};
constexpr std::uint8_t kNoRank = 0xA0;  // bytes below mean -1 where a rank may be left open

/// The texts that a field is drawn from, by its name.
constexpr std::span<const std::string_view> texts_of(std::string_view field) {
  if (field == "group") return kGroups;
  if (field == "world") return kWorlds;
  return kTexts;
}

class Draw {
 public:
  explicit Draw(Input& in) : in_(in) {}

  template <class T>
  requires(std::is_integral_v<T>) void fill(T& value) { value = integer<T>(in_.byte()); }
  void fill(bool& value) { value = in_.byte() % 2 != 0; }
  template <class T>
  requires(std::is_enum_v<T>) void fill(T& value) {
    const std::uint8_t b = in_.byte();
    std::size_t known = 5;
    if constexpr (boost::describe::has_describe_enumerators<T>::value) {
      known = boost::mp11::mp_size<boost::describe::describe_enumerators<T>>::value;
    }
    // What is on the wire may be no enumerator.
    value = static_cast<T>(b < 0xF0 ? b % known : b);
  }
  void fill(Code& value) { value = static_cast<Code>(in_.below(std::size(kCodes) + 2)); }
  void fill(MissingRank::Cause& value) { value = static_cast<MissingRank::Cause>(in_.below(8)); }
  void fill(Duration& value) { value = in_.one_of(kDurations); }
  void fill(SessionId& id) { id = session(in_.byte()); }
  void fill(Stamp& stamp) {
    fill(stamp.incarnation);
    fill(stamp.epoch);
    fill(stamp.revision);
  }
  void fill(std::string& bytes, std::span<const std::string_view> texts = kTexts) {
    const std::uint8_t b = in_.byte();
    if (b < 0xF0) {
      bytes = texts[b % texts.size()];
    } else if (b < 0xFC) {
      bytes = in_.bytes(in_.byte());
    } else {
      constexpr std::size_t kSizes[] = {limits::kNameBytes + 1, limits::kKeyBytes,
                                        limits::kKeyBytes + 1, 300};
      bytes.assign(kSizes[b - 0xFC], 'x');
    }
  }
  void fill(Blob& blob) {
    Bytes bytes;
    fill(bytes);
    blob = Blob(bytes);
  }
  void fill(SharedBytes& slice) {
    Bytes bytes;
    fill(bytes);
    slice = {std::make_shared<const Bytes>("b" + bytes), 1, bytes.size()};
  }
  template <class T>
  void fill(std::vector<T>& list) {
    const std::uint8_t b = in_.byte();
    list.resize(b < 0xF0 ? b % 4 : b - 0xF0U);
    for (T& element : list) fill(element);
  }
  void fill(std::map<std::string, std::string>& map) {
    for (std::size_t n = in_.below(4); n > 0; --n) {
      std::string name;
      fill(name);
      fill(map[name]);
    }
  }
  void fill(RendezvousPolicy& policy) {
    const std::uint8_t b = in_.byte();
    if (b < 0xF0) {
      policy = kPolicies[b % std::size(kPolicies)];
    } else {
      fill_fields(policy);
    }
  }
  template <wire::Described T>
  void fill(T& value) {
    fill_fields(value);
  }

  /// Few, so that they meet; none is zero.
  static SessionId session(std::uint8_t b) { return {1, 1 + b % 4U}; }

  Request request() {
    Request request;
    std::size_t choice = in_.below(std::variant_size_v<detail::AnyRequest>);
    for_each_op([&]<class Op>(std::type_identity<Op>) {
      if (choice-- == 0) fill(request.emplace<Op>());
    });
    return request;
  }

  /// Of this operation, or a failure.
  Reply reply(std::uint8_t op) {
    if (in_.byte() >= 0xC0) {
      Failure failure;
      fill(failure);
      return failure;
    }
    Reply reply = ReplyBody(Done{});
    for_each_op([&]<class Op>(std::type_identity<Op>) {
      if (Op::op.code == op) fill(reply->emplace<typename Op::Body>());
    });
    return reply;
  }

 private:
  template <class T>
  T integer(std::uint8_t b) {
    constexpr std::int64_t kEdges[] = {-1,   8,      16,      255,     1'023,     1'024, 1'025,
                                       4096, 65'536, 131'071, 131'072, 1'048'577, -2};
    if (b < 0xE0) return static_cast<T>(b & 7);
    if (b == 0xFD) return static_cast<T>(in_.number());
    if (b == 0xFE) return std::numeric_limits<T>::min();
    if (b == 0xFF) return std::numeric_limits<T>::max();
    return static_cast<T>(kEdges[(b - 0xE0U) % std::size(kEdges)]);
  }
  template <class T>
  void fill_fields(T& value) {
    using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
    boost::mp11::mp_for_each<Fields>([&](auto field) {
      auto& member = value.*field.pointer;
      if constexpr (std::is_same_v<decltype(member), std::string&>) {
        fill(member, texts_of(field.name));
      } else if constexpr (std::is_same_v<decltype(member), Blob&>) {
        std::string bytes;
        fill(bytes, texts_of(field.name));
        member = bytes;
      } else if constexpr (std::is_same_v<decltype(member), std::int64_t&>) {
        const bool open = std::string_view(field.name) == "rank";
        const std::uint8_t b = in_.byte();
        member = open && b < kNoRank ? -1 : integer<std::int64_t>(b);
      } else {
        fill(member);
      }
    });
  }

  Input& in_;
};

}  // namespace c10dd::fuzz
