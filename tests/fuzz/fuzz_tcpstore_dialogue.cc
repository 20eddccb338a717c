// SPDX-License-Identifier: Apache-2.0
// Two bytes of settings, then any bytes of a TCPStore client: a conversation in pieces gets the
// same bytes as one at once, and holds nothing when all replies have come.
#include "protocol/tcpstore_dialogue.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"
#include "tests/unit/protocol/tcpstore_model.h"

namespace {

using c10dd::Bytes;
namespace tcpstore = c10dd::tcpstore;

/// What the client gets, and the failure that ended the conversation.
Bytes replies_to(std::string_view stream, tcpstore::LegacyClients legacy, std::size_t step) {
  tcpstore::Model model;
  tcpstore::TcpStoreDialogue dialogue(legacy);
  Bytes out;
  std::size_t begin = 0;
  for (std::size_t end = std::min(step, stream.size());;) {
    const auto head = dialogue.look(stream.substr(begin, end - begin));
    const std::size_t used = dialogue.take(stream.substr(begin, end - begin), model, out);
    C10DD_ASSERT(used == 0 || (head && *head));
    begin += used;
    const tcpstore::Model::Replies replies = std::exchange(model.replies, {});
    for (const auto& [sequence, reply] : replies) dialogue.reply(sequence, reply, out);
    dialogue.read_on(model);
    if (used > 0 || !replies.empty() || !model.replies.empty()) continue;
    C10DD_ASSERT(!dialogue.is_paused());
    if (end == stream.size()) break;
    end = std::min(end + step, stream.size());
  }
  C10DD_ASSERT(dialogue.held_bytes() == 0 || dialogue.over());
  return dialogue.over() ? out + "; " + dialogue.over()->detail : out;
}

}  // namespace

C10DD_FUZZ(tcpstore_dialogue) {
  c10dd::fuzz::Input input(data, size);
  const auto legacy = static_cast<tcpstore::LegacyClients>(input.below(3));
  const std::size_t step = 1 + input.below(16);
  const std::string_view stream = input.rest();
  const Bytes whole = replies_to(stream, legacy, stream.size() + 1);
  C10DD_ASSERT(replies_to(stream, legacy, step) == whole);
  return 0;
}
