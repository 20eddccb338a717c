// SPDX-License-Identifier: Apache-2.0
// A client and a server with TLS, and a wire that somebody else holds: it delivers bytes in pieces,
// holds them back, changes, drops, repeats and adds some, and cuts, in the handshake and after it.
// Nobody reads what the other end has not written, in this order; an end is an end only if the
// writer says so; and a wire that is only slow carries all.
#include "tests/fuzz/input.h"
#include "tests/fuzz/shown.h"
#include "tests/fuzz/target.h"
#include "tests/unit/protocol/tls_parties.h"

namespace {

namespace tls = c10dd::tls;
using c10dd::Result;
using c10dd::fuzz::Input;

constexpr std::size_t kPlainMost = 1 << 20;  // of one end

/// The certificates of both ends, and what each may believe.
struct Parties {
  tls::Ca ca;
  tls::Identity daemon = ca.daemon({"head"});
  tls::Identity member = ca.daemon({"member"});
  tls::Identity stranger = tls::Ca("other").daemon({"stranger"});
  tls::Context servers[2] = {tls::server_of(daemon), tls::server_of(daemon, {ca.certificate})};
  tls::Context clients[6] = {
      tls::client_of(tls::CaHash{ca.key.hash()}),
      tls::client_of(tls::KnownCas{{ca.certificate}}),
      tls::client_of(tls::CaHash{ca.key.hash()}, &member),
      tls::client_of(tls::KnownCas{{ca.certificate}}, &member),
      tls::client_of(tls::CaHash{ca.key.hash()}, &stranger),
      tls::client_of(tls::KnownCas{{ca.certificate}}, &stranger),
  };
};

const Parties& parties() {
  static const Parties& all = *new Parties;
  return all;
}

/// One end, and the plain bytes that it has written and read.
struct End {
  std::optional<tls::Channel> channel;
  c10dd::Bytes wrote, got;
  bool dead = false;    // a call has failed
  bool closed = false;  // it has said that it sends no more

  bool may_act() const { return !dead && channel->is_open(); }
};

class World {
 public:
  explicit World(Input& in) : in_(in), settings_(in.byte()) {
    client().channel.emplace(parties().clients[(settings_ & 3U) + (is_strange() ? 2 : 0)], "head");
    server().channel.emplace(parties().servers[settings_ >> 2U & 1U]);
    if ((settings_ & 8U) != 0) settle();
    C10DD_ASSERT((settings_ & 8U) == 0 || (client().may_act() && server().may_act()));
  }

  void step();
  void finish();

 private:
  /// The client shows a certificate of another CA, if any.
  bool is_strange() const { return (settings_ & 18U) == 18U; }
  End& client() { return ends_[0]; }
  End& server() { return ends_[1]; }
  End& peer(const End& of) { return ends_[&of == ends_ ? 1 : 0]; }

  void turn(End& end, std::size_t room);
  void write(End& end, std::size_t size);
  void deliver(End& from, std::size_t size);
  void disturb(End& from, std::size_t size);
  void settle();
  void check(End& end);

  Input& in_;
  const unsigned settings_;
  End ends_[2];
  bool disturbed_ = false;
};

/// Goes on with the handshake, then reads, at most so many bytes at a time.
void World::turn(End& end, std::size_t room) {
  if (end.dead) return;
  const Result<bool> open = end.channel->shake_hands();
  c10dd::fuzz::expect_shown(open);
  end.dead = !open;
  if (!open || !*open) return;
  std::string into(room, '\0');
  while (true) {
    const Result<std::size_t> count = end.channel->read(into);
    c10dd::fuzz::expect_shown(count);
    end.dead = !count;
    if (!count || *count == 0) return;
    C10DD_ASSERT(*count <= into.size());
    end.got.append(into, 0, *count);
  }
}

/// Bytes whose place shows, so that none can stand for another.
void World::write(End& end, std::size_t size) {
  if (!end.may_act() || end.closed || end.wrote.size() + size > kPlainMost) return;
  c10dd::Bytes plain;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = end.wrote.size() + i;
    plain.push_back(static_cast<char>((at * 131 + at / 251 * 7 + (&end == ends_ ? 1 : 2)) % 256));
  }
  const Result<std::size_t> taken = end.channel->write(plain);
  C10DD_ASSERT(taken && *taken <= plain.size() && (*taken > 0 || plain.empty()));
  constexpr std::size_t kTelling = 16;
  if (*taken >= kTelling) {
    const std::string_view out = end.channel->outgoing();
    C10DD_ASSERT(out.find(plain.substr(0, kTelling)) == out.npos);
  }
  end.wrote.append(plain, 0, *taken);
}

void World::deliver(End& from, std::size_t size) {
  const c10dd::Bytes bytes(from.channel->outgoing().substr(0, size));
  peer(from).channel->receive(bytes);
  from.channel->sent(bytes.size());
}

/// What only an attacker or a broken network does.
void World::disturb(End& from, std::size_t size) {
  disturbed_ = true;
  c10dd::Bytes bytes(from.channel->outgoing().substr(0, size));
  End& to = peer(from);
  const std::size_t at = bytes.empty() ? 0 : in_.two_bytes() % bytes.size();
  switch (in_.below(5)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 + in_.below(255)));
      break;
    case 1:
      bytes.erase(at, 1 + in_.byte());
      break;
    case 2:
      bytes += bytes;
      break;
    case 3:
      bytes.insert(at, in_.text());
      break;
    default:
      to.channel->receive_end();
      return;
  }
  to.channel->receive(bytes);
  from.channel->sent(std::min(size, from.channel->outgoing().size()));
}

void World::step() {
  End& end = ends_[in_.below(2)];
  const std::size_t what = in_.below(8);
  const std::size_t amount = in_.byte();
  const std::size_t size = amount < 0xE0 ? amount : (amount - 0xDF) * 1'500;
  switch (what) {
    case 0:
    case 1:
      turn(end, 1 + amount * 40);
      break;
    case 2:
    case 3:
      deliver(end, size);
      break;
    case 4:
      write(end, size);
      break;
    case 5:
      disturb(end, size);
      break;
    case 6:
      if (!end.may_act() || amount >= 0x40) break;
      end.channel->close();
      end.closed = true;
      break;
    default: {
      tls::Channel moved(std::move(*end.channel));
      end.channel.emplace(std::move(moved));
    }
  }
  for (End& one : ends_) check(one);
}

/// Carries all that is under way.
void World::settle() {
  for (int turns = 0; turns < 32; ++turns) {
    for (End& end : ends_) {
      turn(end, 5'000);
      deliver(end, end.channel->outgoing().size());
    }
  }
}

void World::check(End& end) {
  const End& other = peer(end);
  C10DD_ASSERT(other.wrote.starts_with(end.got));
  C10DD_ASSERT(!end.channel->has_ended() || (other.closed && end.got == other.wrote));
  if (!end.may_act()) return;
  const auto shown = end.channel->peer();
  if (&end == ends_) {
    C10DD_ASSERT(shown && shown->pem() == parties().daemon.chain.front().pem());
  } else {
    const bool asked = (settings_ >> 2U & 1U) != 0 && (settings_ & 2U) != 0;
    C10DD_ASSERT(shown.has_value() == (asked && !is_strange()));
    C10DD_ASSERT(end.channel->peer_refused().empty() == !(asked && is_strange()));
    C10DD_ASSERT(!shown || shown->pem() == parties().member.chain.front().pem());
  }
}

void World::finish() {
  settle();
  for (End& end : ends_) check(end);
  if (disturbed_) return;
  for (End& end : ends_) {
    C10DD_ASSERT(end.may_act() && end.got == peer(end).wrote);
    C10DD_ASSERT(end.channel->has_ended() == peer(end).closed);
    C10DD_ASSERT(end.channel->outgoing().empty() && end.channel->version() == "TLSv1.3");
  }
}

/// A server and whatever an attacker sends to it, who has no other end.
void attack(Input& in) {
  tls::Channel server(parties().servers[in.below(2)]);
  std::string_view bytes = in.rest();
  while (!bytes.empty()) {
    const std::size_t size = 1 + static_cast<unsigned char>(bytes.front()) % 64U;
    server.receive(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    const Result<bool> open = server.shake_hands();
    c10dd::fuzz::expect_shown(open);
    if (!open) return;
    C10DD_ASSERT(!*open && !server.is_open());
  }
}

}  // namespace

C10DD_FUZZ(tls_channel) {
  Input in(data, size);
  if (in.below(8) == 0) {
    attack(in);
    return 0;
  }
  World world(in);
  while (!in.empty()) world.step();
  world.finish();
  return 0;
}
