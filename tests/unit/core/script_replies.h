// SPDX-License-Identifier: Apache-2.0
// The words of tests/unit/scripts: a reply as the text after the arrow.
#pragma once

#include <boost/describe/enum_to_string.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/diagnosis.h"
#include "protocol/fields.h"
#include "protocol/ops.h"
#include "protocol/wording.h"

namespace c10dd::script {

/// 64 equal bytes and more are shown as `x*64`, none as "".
inline std::string fold(const Bytes& bytes) {
  if (bytes.empty()) return "\"\"";
  if (bytes.size() < 64 || bytes.find_first_not_of(bytes[0]) != Bytes::npos) return bytes;
  return std::string(1, bytes[0]) + "*" + std::to_string(bytes.size());
}

template <class Text>
std::string list_text(const std::vector<Text>& list) {
  std::string text;
  for (const Text& item : list) text += ' ' + fold(Bytes(item));
  return text;
}

/// REVISION:KEY=VALUE or REVISION:-KEY of each change, and where to go on.
inline std::string changes_text(const Changes& changes) {
  std::string text;
  for (const Change& change : changes.changes) {
    text += ' ' + std::to_string(change.revision) + ':';
    const std::string key = fold(change.key.str());
    text += change.removed ? '-' + key : key + '=' + fold(change.value.str());
  }
  text += " next=" + std::to_string(changes.next);
  if (changes.skip != 0) text += " skip=" + std::to_string(changes.skip);
  return text;
}

inline std::string ranges_text(const std::vector<RankRange>& ranges) {
  std::string text;
  for (const RankRange& range : ranges) {
    text += (text.empty() ? "" : ",") + std::to_string(range.first);
    if (range.last != range.first) text += "-" + std::to_string(range.last);
  }
  return text;
}

/// gen G PHASE, and what there is of lost=, finished=, stalled=, waiting=,
/// NOTICE:ranks/acknowledged.
inline std::string news_text(const GroupStatus& status) {
  std::string text = " gen " + std::to_string(status.generation) + ' ' +
                     boost::describe::enum_to_string(status.phase, "?");
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += std::string(" ") + name + "=" + value;
  };
  add("lost", ranges_text(status.lost));
  add("finished", ranges_text(status.finished));
  add("stalled", ranges_text(status.stalled));
  if (status.waiting > 0) add("waiting", std::to_string(status.waiting));
  for (const Notice& notice : status.notices) {
    text += std::string(" ") + boost::describe::enum_to_string(notice.kind, "?") + ":" +
            ranges_text(notice.ranks) + "/" + ranges_text(notice.acknowledged);
    if (notice.left > Duration::zero()) text += "/" + human(notice.left);
  }
  return text;
}

/// STATE groups=..., hopeless=... and ranks=... if there are any, and the sentence. Nothing if the
/// job goes on.
inline std::string diagnosis_text(const ActivityDiagnosis& found) {
  if (found.state == 0) return "";
  std::string text = " " + std::string(name_of(static_cast<Diagnosis::State>(found.state)));
  const auto add = [&](const char* name, const std::vector<std::uint64_t>& groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      text += (i == 0 ? std::string(" ") + name + "=" : ",") + std::to_string(groups[i]);
    }
  };
  add("groups", found.groups);
  add("hopeless", found.hopeless);
  if (!found.ranks.empty()) text += " ranks=" + ranges_text(found.ranks);
  return text + ": " + found.sentence;
}

inline std::string members_text(const MemberPage& page) {
  std::string text = " gen " + std::to_string(page.generation);
  wire::Reader reader(page.list.view());
  for (std::uint32_t i = 0; i < page.count; ++i) {
    MemberInfo member;
    reader.get(member);
    text += ' ' + std::to_string(member.rank) + ':' + member.host;
    if (member.previous_rank >= 0) text += "(" + std::to_string(member.previous_rank) + ")";
  }
  return text + (reader.ok() && reader.at_end() ? "" : " damaged");
}

/// The text of an answer, as it stands after the arrow. A failure is its code.
inline std::string text_of(const Reply& reply) {
  if (!reply) return std::string(name_of(reply.error().code));
  std::string text = "ok";
  std::visit(
      [&]<class Body>(const Body& body) {
        if constexpr (std::is_same_v<Body, Welcome>) {
          if (body.expiry != limits::kSessionExpiry) text += " expiry " + human(body.expiry);
        }
        if constexpr (std::is_same_v<Body, Value>) text += ' ' + fold(body.value.str());
        if constexpr (std::is_same_v<Body, Values>) text += list_text(body.values);
        if constexpr (std::is_same_v<Body, ValuePage>) {
          text += list_text(body.values) + " next=" + std::to_string(body.next);
        }
        if constexpr (std::is_same_v<Body, Checked>) text += body.all ? " yes" : " no";
        if constexpr (std::is_same_v<Body, Counter>) text += ' ' + std::to_string(body.value);
        if constexpr (std::is_same_v<Body, Counted>) text += ' ' + std::to_string(body.count);
        if constexpr (std::is_same_v<Body, Appended>) text += ' ' + std::to_string(body.bytes);
        if constexpr (std::is_same_v<Body, Popped>) text += ' ' + fold(body.value);
        if constexpr (std::is_same_v<Body, Removed>) text += body.existed ? " existed" : " absent";
        if constexpr (std::is_same_v<Body, KeyPage>) {
          text += list_text(body.keys) + (body.more ? " ..." : "");
        }
        if constexpr (std::is_same_v<Body, Compared>) {
          text += body.swapped  ? std::string(" swapped")
                  : body.exists ? " kept " + fold(body.current)
                                : " missing";
        }
        if constexpr (std::is_same_v<Body, Transacted>) {
          const std::string failed = std::to_string(body.failed);
          text += !body.applied      ? " refused " + failed
                  : body.failed == 0 ? " applied"
                                     : " applied, but failed " + failed;
          for (const std::int64_t sum : body.sums) text += ' ' + std::to_string(sum);
        }
        if constexpr (std::is_same_v<Body, Changes>) text += changes_text(body);
        if constexpr (std::is_same_v<Body, GroupStatus>) text += news_text(body);
        if constexpr (std::is_same_v<Body, ActivityDiagnosis>) text += diagnosis_text(body);
        if constexpr (std::is_same_v<Body, MemberPage>) text += members_text(body);
        if constexpr (std::is_same_v<Body, Joined>) {
          text += " gen " + std::to_string(body.generation) + " rank " + std::to_string(body.rank) +
                  "/" + std::to_string(body.size);
          if (body.round != body.generation) text += " round " + std::to_string(body.round);
          if (body.failures > 0) text += " failures " + std::to_string(body.failures);
        }
        if constexpr (std::is_same_v<Body, Exchanged>) {
          std::vector<Bytes> parts;
          wire::Reader reader(body.chunk.view());
          reader.get(parts);
          if (body.offset == 0 && body.chunk.length == body.total && reader.ok()) {
            text += list_text(parts);
          } else {
            text += " bytes " + std::to_string(body.offset) + "+" +
                    std::to_string(body.chunk.length) + " of " + std::to_string(body.total);
          }
        }
      },
      *reply);
  return text;
}

}  // namespace c10dd::script
