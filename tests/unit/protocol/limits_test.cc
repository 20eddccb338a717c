// SPDX-License-Identifier: Apache-2.0
// The lists that are written once: codes, operations, metrics. Checks what a compiler cannot check.
#include "protocol/limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "protocol/fields.h"
#include "protocol/metric_catalog.h"
#include "protocol/native_wire.h"

namespace c10dd {
namespace {

bool is_snake_case(std::string_view text) {
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == text.npos;
}

std::vector<std::string> split(std::string_view labels) {
  std::vector<std::string> names;
  while (!labels.empty()) {
    const std::size_t comma = std::min(labels.find(','), labels.size());
    names.emplace_back(labels.substr(0, comma));
    labels.remove_prefix(std::min(comma + 1, labels.size()));
  }
  return names;
}

TEST(Codes, HaveUniqueNamesAndPlausibleStatus) {
  std::set<std::string_view> names;
  for (const CodeInfo& info : kCodes) {
    EXPECT_TRUE(is_snake_case(info.name)) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.http_status == 200, info.code == Code::ok) << info.name;
    EXPECT_TRUE(info.http_status == 200 || (info.http_status >= 400 && info.http_status < 600));
  }
  EXPECT_EQ(name_of(static_cast<Code>(250)), "internal");
}

TEST(Ops, HaveUniqueNamesAndAreFoundByCode) {
  std::set<std::string_view> names;
  std::size_t count = 0;
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    ++count;
    EXPECT_TRUE(is_snake_case(Op::op.name)) << Op::op.name;
    EXPECT_TRUE(names.insert(Op::op.name).second) << Op::op.name;
    ASSERT_NE(find_op(Op::op.code), nullptr);
    EXPECT_EQ(find_op(Op::op.code)->name, Op::op.name);
    EXPECT_GE(Op::op.since, 1);
    EXPECT_LE(Op::op.since, kProtocolVersion);
    if (Op::op.kind == OpKind::read) {
      EXPECT_EQ(Op::op.dedup, Dedup::none) << Op::op.name;
    }
  });
  EXPECT_EQ(count, std::variant_size_v<detail::AnyRequest>);
  EXPECT_EQ(find_op(0), nullptr);
  EXPECT_EQ(find_op(255), nullptr);
}

TEST(Limits, LetTheLargestMessagesFitAFrame) {
  Bytes frame;
  native::encode_request(frame, {},
                         CompareSet{Bytes(limits::kKeyBytes, 'k'), Bytes(limits::kValueBytes, 'e'),
                                    Bytes(limits::kValueBytes, 'd')});
  EXPECT_TRUE(native::cut_request(frame, limits::kFrameBytes));
  frame.clear();
  native::encode_request(frame, {},
                         Transact{{{Condition::Kind::value_is, Bytes(limits::kKeyBytes, 'k'),
                                    Bytes(limits::kValueBytes - limits::kKeyBytes, 'v'), 0}},
                                  {{Action::Kind::set, Bytes(limits::kKeyBytes, 'k'),
                                    Bytes(limits::kValueBytes, 'v'), 0, Duration{0}, false}}});
  EXPECT_TRUE(native::cut_request(frame, limits::kFrameBytes));
  Hello hello;
  hello.job = hello.run = hello.host = std::string(limits::kNameBytes, 'n');
  hello.credential = Bytes(limits::kCredentialBytes, 'c');
  frame.clear();
  native::encode_request(frame, {}, hello);
  EXPECT_TRUE(native::cut_request(frame, limits::kHelloFrameBytes));
}

TEST(Limits, LetTheLargestKeptReplyFit) {
  Transacted largest;
  largest.sums.resize(limits::kSums);
  EXPECT_LE(wire::encode(largest).size(), limits::kStoredReplyBytes);
}

TEST(MetricCatalog, HoldsValidUniqueNames) {
  std::set<std::string_view> names;
  for (const metric::Info& info : metric::kAll) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(is_snake_case(info.name)) << info.name;
    EXPECT_TRUE(info.name.starts_with("c10dd_") || info.name.starts_with("process_")) << info.name;
    EXPECT_EQ(info.name.ends_with("_total"), info.kind == metric::Kind::counter) << info.name;
    EXPECT_FALSE(info.help.empty() || info.help.ends_with('.')) << info.name;
    for (const char* reserved : {"_bucket", "_sum", "_count", "_created"}) {
      EXPECT_FALSE(info.name.ends_with(reserved)) << info.name;
    }
    for (const char* unit : {"_milliseconds", "_ms", "_kb", "_mb", "_ns"}) {
      EXPECT_EQ(info.name.find(unit), info.name.npos) << info.name << " is not in a base unit";
    }
  }
}

TEST(MetricCatalog, BoundsItsLabels) {
  // Each of these has a bounded set of values; a key, a rank or a session has not. A sentence has
  // not, either, but a job has one at a time.
  const std::set<std::string> bounded = {"version", "engine",     "durability", "protocol",
                                         "reason",  "code",       "op",         "outcome",
                                         "backend", "collective", "train_job",  "process_group",
                                         "daemon",  "state",      "kind",       "sentence"};
  for (const metric::Info& info : metric::kAll) {
    const std::vector<std::string> labels = split(info.labels);
    EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), labels.size()) << info.name;
    for (const std::string& label : labels) EXPECT_TRUE(bounded.contains(label)) << label;
  }
}

TEST(MetricCatalog, HasAscendingBucketBounds) {
  const auto ascends = [](const auto& bounds) {
    return std::ranges::adjacent_find(bounds, std::greater_equal<>()) == bounds.end();
  };
  EXPECT_TRUE(ascends(metric::kCollectiveBounds));
  EXPECT_TRUE(ascends(metric::kRequestBounds));
  EXPECT_TRUE(ascends(metric::kWaitBounds));
  EXPECT_TRUE(ascends(metric::kCommitBounds));
  EXPECT_TRUE(ascends(metric::kRowBounds));
}

}  // namespace
}  // namespace c10dd
