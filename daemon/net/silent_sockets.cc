// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/silent_sockets.h"

#include <array>
#include <string>
#include <utility>

namespace c10dd::daemon {

/// Reads from a silent connection, which ends its silence or the connection.
class SilentSockets::Socket final : public StreamReader,
                                    public std::enable_shared_from_this<SilentSockets::Socket> {
 public:
  Socket(SilentSockets& owner, std::shared_ptr<Stream> its)
      : stream(std::move(its)), address(stream->address()), owner_(&owner) {}

  void read() { stream->read_into(asio::buffer(bytes), shared_from_this()); }

  void on_read(std::size_t count, const ErrorCode&) override {
    if (SilentSockets* const owner = std::exchange(owner_, nullptr)) {
      owner->woken(shared_from_this(), count);
    }
  }

  void close() {
    owner_ = nullptr;
    stream->close();
  }

  const std::shared_ptr<Stream> stream;
  const Address address;
  std::array<char, 64> bytes;

 private:
  SilentSockets* owner_;  ///< null when the owner does not keep the socket any more
};

SilentSockets::~SilentSockets() {
  for (const auto& [address, peer] : addresses_) {
    for (const auto& socket : peer.silent) socket->close();
  }
}

bool SilentSockets::keep(const std::shared_ptr<Stream>& stream) {
  const auto found = addresses_.find(stream->address());
  if (found == addresses_.end()) return false;
  Peer& peer = found->second;
  if (peer.silent.size() >= peer.clients) return false;
  stream->outlive_outages();
  peer.silent.push_back(std::make_shared<Socket>(*this, stream));
  peer.silent.back()->read();
  ++kept_;
  return true;
}

void SilentSockets::old_client_ended(const Address& address) {
  const auto found = addresses_.find(address);
  if (found == addresses_.end()) return;
  Peer& peer = found->second;
  --peer.clients;
  if (peer.silent.size() > peer.clients) {
    peer.silent.front()->close();
    peer.silent.pop_front();
    --kept_;
    dropped_();
  }
  if (peer.clients == 0) addresses_.erase(found);
}

/// Handles the end of a silence: without bytes, the connection has ended.
void SilentSockets::woken(const std::shared_ptr<Socket>& socket, std::size_t bytes) {
  addresses_[socket->address].silent.remove(socket);
  --kept_;
  if (bytes == 0) {
    socket->stream->close();
    return dropped_();
  }
  socket->stream->put_head(std::string(socket->bytes.data(), bytes));
  serve_(socket->stream);
}

}  // namespace c10dd::daemon
