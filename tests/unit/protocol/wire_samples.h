// SPDX-License-Identifier: Apache-2.0
// Values that tell fields apart, derived from the field lists: every operation and every reply
// body, also those that are not written yet.
#pragma once

#include <boost/describe/enumerators.hpp>
#include <boost/mp11/algorithm.hpp>
#include <random>
#include <string>
#include <vector>

#include "protocol/fields.h"

namespace c10dd::samples {

/// Fills every field of a described struct with a value of its own.
class Filler {
 public:
  explicit Filler(std::uint64_t seed) : random_(seed) {}

  template <class T>
  requires(std::is_integral_v<T>) void fill(T& value) {
    value = static_cast<T>(random_() >> 8 | 1);
  }
  void fill(bool& value) { value = true; }
  template <class T>
  requires(boost::describe::has_describe_enumerators<T>::value) void fill(T& value) {
    using Enumerators = boost::describe::describe_enumerators<T>;
    value = static_cast<T>(random_() % boost::mp11::mp_size<Enumerators>::value);
  }
  void fill(Code& value) { value = Code::timed_out; }
  void fill(MissingRank::Cause& value) { value = MissingRank::Cause::silent; }
  void fill(Duration& value) { value = std::chrono::milliseconds(250 + 250 * (random_() % 4000)); }
  void fill(SessionId& id) { id = {random_(), random_()}; }
  void fill(Stamp& stamp) { stamp = {random_(), random_(), random_()}; }
  void fill(std::string& bytes) {
    bytes = std::string("\x00\xFF\n", 3);
    for (auto n = random_() % 40; n > 0; --n) bytes.push_back(static_cast<char>(random_()));
  }
  void fill(Blob& blob) {
    std::string bytes;
    fill(bytes);
    blob = bytes;
  }
  void fill(SharedBytes& slice) {
    std::string bytes;
    fill(bytes);
    slice = {std::make_shared<const Bytes>("before" + bytes + "after"), 6, bytes.size()};
  }
  template <class T>
  void fill(std::vector<T>& list) {
    list.resize(1 + random_() % 3);
    for (T& element : list) fill(element);
  }
  void fill(std::map<std::string, std::string>& map) {
    for (const char* key : {"zone", "gpu"}) fill(map[key]);
  }
  template <wire::Described T>
  void fill(T& value) {
    using Fields = boost::describe::describe_members<T, boost::describe::mod_public>;
    boost::mp11::mp_for_each<Fields>([&](auto field) { fill(value.*field.pointer); });
  }

 private:
  std::mt19937_64 random_;
};

template <class T>
T sample(std::uint64_t seed) {
  T value;
  Filler(seed).fill(value);
  return value;
}

/// Calls f(Request) for each operation of the table, filled.
template <class F>
void for_each_request(std::uint64_t seed, F&& f) {
  for_each_op([&]<class Op>(std::type_identity<Op>) { f(Request(sample<Op>(seed++))); });
}

/// Calls f(op code, reply) for the reply of each operation, filled.
template <class F>
void for_each_reply(std::uint64_t seed, F&& f) {
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    f(Op::op.code, Reply(ReplyBody(sample<typename Op::Body>(seed++))));
  });
}

inline Bytes bytes_of(const Request& request) {
  return std::visit([](const auto& r) { return wire::encode(r); }, request);
}

inline Bytes bytes_of(const Reply& reply) {
  if (!reply) return wire::encode(reply.error());
  return std::visit([](const auto& body) { return wire::encode(body); }, *reply);
}

}  // namespace c10dd::samples
