// SPDX-License-Identifier: Apache-2.0
// The inverse of Draw: the bytes from which it draws a request, as far as its small sets reach; so
// that seeds can be said in requests.
#pragma once

#include "tests/fuzz/draw.h"

namespace c10dd::fuzz {

class Undraw {
 public:
  explicit Undraw(InputWriter& out) : out_(out) {}

  template <class T>
  requires(std::is_integral_v<T>) void put(T value) {
    if (value >= 0 && value < 8) {
      out_.byte(static_cast<std::size_t>(value));
    } else {
      out_.byte(0xFD).number(static_cast<std::uint64_t>(value));
    }
  }
  void put(bool value) { out_.byte(value ? 1 : 0); }
  template <class T>
  requires(std::is_enum_v<T>) void put(T value) { out_.byte(static_cast<std::size_t>(value)); }
  void put(Duration value) {
    const auto* const found = std::find(std::begin(kDurations), std::end(kDurations), value);
    C10DD_ASSERT(found != std::end(kDurations));
    out_.byte(static_cast<std::size_t>(found - std::begin(kDurations)));
  }
  void put(const SessionId& id) { out_.byte(id.low == 0 ? 0 : id.low - 1); }
  void put(const Stamp& stamp) {
    put(stamp.incarnation);
    put(stamp.epoch);
    put(stamp.revision);
  }
  void put(const std::string& bytes, std::span<const std::string_view> texts = kTexts) {
    const auto found = std::ranges::find(texts, bytes);
    if (found != texts.end()) {
      out_.byte(static_cast<std::size_t>(found - texts.begin()));
    } else {
      C10DD_ASSERT(bytes.size() < 256);
      out_.byte(0xF0).byte(bytes.size()).bytes(bytes);
    }
  }
  template <class T>
  void put(const std::vector<T>& list) {
    C10DD_ASSERT(list.size() < 16);
    out_.byte(list.size() < 4 ? list.size() : 0xF0 + list.size());
    for (const T& element : list) put(element);
  }
  void put(const std::map<std::string, std::string>& map) {
    C10DD_ASSERT(map.size() < 4);
    out_.byte(map.size());
    for (const auto& [name, value] : map) {
      put(name);
      put(value);
    }
  }
  void put(const RendezvousPolicy& policy) {
    const auto* const found = std::find(std::begin(kPolicies), std::end(kPolicies), policy);
    C10DD_ASSERT(found != std::end(kPolicies));
    out_.byte(static_cast<std::size_t>(found - std::begin(kPolicies)));
  }
  template <wire::Described T>
  void put(const T& value) {
    using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
    boost::mp11::mp_for_each<Fields>([&](auto field) {
      const auto& member = value.*field.pointer;
      if constexpr (std::is_same_v<decltype(member), const std::string&>) {
        put(member, texts_of(field.name));
      } else if constexpr (std::is_same_v<decltype(member), const Blob&>) {
        put(member.str(), texts_of(field.name));
      } else if constexpr (std::is_same_v<decltype(member), const std::int64_t&>) {
        put_signed(member, std::string_view(field.name) == "rank");
      } else {
        put(member);
      }
    });
  }
  void put(const Request& request) {
    out_.byte(request.index());
    std::visit([&](const auto& r) { put(r); }, request);
  }

 private:
  void put_signed(std::int64_t value, bool may_be_open) {
    if (may_be_open && value >= 0 && value < 8) {
      out_.byte(kNoRank + static_cast<std::size_t>(value));
    } else if (may_be_open && value == -1) {
      out_.byte(0);
    } else {
      put(value);
    }
  }

  InputWriter& out_;
};

}  // namespace c10dd::fuzz
