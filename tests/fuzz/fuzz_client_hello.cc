// SPDX-License-Identifier: Apache-2.0
// Any bytes as the first ones of a connection: more bytes change only what is said of a part, and
// OpenSSL, given the same bytes, has something to answer exactly if the ClientHello is whole.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "protocol/client_hello.h"
#include "tests/fuzz/target.h"
#include "tests/unit/protocol/tls_parties.h"

namespace {

namespace tls = c10dd::tls;
using c10dd::client_hello;
using c10dd::ClientHello;

void require(bool holds) {
  if (!holds) std::abort();
}

const tls::Context& server() {
  static const tls::Context& made = *new tls::Context(tls::server_of(tls::Ca().daemon()));
  return made;
}

/// Returns whether a server has an answer to these bytes, or refuses them.
bool answers(std::string_view bytes) {
  tls::Channel channel(server());
  channel.receive(bytes);
  return !channel.shake_hands() || !channel.outgoing().empty();
}

}  // namespace

C10DD_FUZZ(client_hello) {
  const std::string_view in(reinterpret_cast<const char*>(data), size);
  ClientHello before = ClientHello::part;
  for (std::size_t length = 0; length <= in.size(); ++length) {
    const ClientHello now = client_hello(in.substr(0, length));
    require(before == ClientHello::part || now == before);
    if (before == ClientHello::part && now == ClientHello::whole) {
      require(answers(in.substr(0, length)));
    }
    before = now;
  }
  if (before == ClientHello::part) {  // OpenSSL may refuse it early, but answers nothing
    tls::Channel channel(server());
    channel.receive(in);
    const auto done = channel.shake_hands();
    require(!done || (!*done && channel.outgoing().empty()));
  }
  return 0;
}
