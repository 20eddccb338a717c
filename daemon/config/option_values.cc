// SPDX-License-Identifier: Apache-2.0
// Reads and prints option values that are not numbers.
#include "daemon/config/option_values.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/names.h"
#include "protocol/parse.h"

namespace c10dd::daemon {
namespace {

constexpr std::pair<std::string_view, store::Durability> kDurabilities[] = {
    {"fsync", store::Durability::fsync},
    {"os", store::Durability::os},
    {"none", store::Durability::none},
};
constexpr std::pair<std::string_view, tcpstore::LegacyClients> kLegacyClients[] = {
    {"auto", tcpstore::LegacyClients::detect},
    {"2.0", tcpstore::LegacyClients::l0},
    {"2.1", tcpstore::LegacyClients::l1},
};
constexpr std::string_view kRocks = "rocksdb:";
constexpr std::string_view kLogLevels[] = {"trace", "debug", "info", "warn", "error"};

Failure refused(const std::string& text, const std::string& why) {
  return failure(Code::invalid_argument, '"' + text + "\" " + why);
}

bool is_ipv6(std::string address) {
  address = address.substr(0, address.find('%'));  // cuts off the zone of a link-local address
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, address.c_str(), &ignored) == 1;
}

bool is_name(const std::string& host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_';
  });
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return small;
}

/// Splits a list at its commas. Returns an empty vector for an empty text.
std::vector<std::string> names_of(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    names.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

std::string list_of(const ProtocolSet& protocols, std::string_view between) {
  std::string list;
  for (const ProtocolName& entry : kProtocols) {
    if (protocols.has(entry.protocol)) list.append(list.empty() ? "" : between).append(entry.name);
  }
  return list;
}

Failure invalid_protocols(const std::string& text) {
  const ProtocolSet all = ProtocolSet::all();
  return failure(Code::invalid_argument,
                 "invalid list of protocols \"{}\"; use one or more of {} without repeats, for "
                 "example {}",
                 text, list_of(all, ", "), list_of(all, ","));
}

/// Returns the host of a field Host in lower case: of "name" or "[::1]", with or without ":port".
/// Returns an empty text for any other form, such as "localhost:1@evil".
std::string host_in_field(std::string_view field) {
  const Result<AddressParts> parts = split_address(field);
  if (!parts || (parts->port && !parse_number<std::uint16_t>(*parts->port))) return {};
  const std::string host(parts->host);
  return (parts->bracketed ? is_ipv6(host) : is_name(host)) ? lower(host) : "";
}

/// Returns the path as seen from the root, without "." and "..". Returns it as it is if the working
/// directory is gone.
std::string absolute_path(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.lexically_normal().string();
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::string rocks_at(const std::string& path) { return std::string(kRocks) + absolute_path(path); }

std::optional<std::string> home() {
  if (const auto home = environment("HOME")) return home;
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
  return found && *found->pw_dir ? std::optional<std::string>(found->pw_dir) : std::nullopt;
}

}  // namespace

/// Reads the host and the port of an address to listen on.
Result<std::pair<std::string, std::uint16_t>> listen_parts(const std::string& text) {
  const std::string example = "use HOST:PORT, for example 127.0.0.1:29500 or [::1]:29500";
  const Result<AddressParts> parts = split_address(text);
  if (!parts) return refused(text, "is not an address: " + parts.error().detail + "; " + example);
  const std::string host(parts->host);
  if (parts->bracketed && !is_ipv6(host)) {
    return refused(text, "has no valid IPv6 address in brackets; " + example);
  }
  if (!parts->bracketed && !is_name(host)) return refused(text, "has no valid host; " + example);
  if (!parts->port) return refused(text, "has no port; " + example);
  const auto port = parse_number<std::uint16_t>(*parts->port);
  if (!port) {
    return refused(text, format("has port \"{}\", which is not an integer from 0 to 65535; use 0 "
                                "for any free port",
                                *parts->port));
  }
  return std::pair(host, *port);
}

Result<void> set_listen(Options& options, const std::string& text) {
  Result<std::pair<std::string, std::uint16_t>> parts = listen_parts(text);
  if (!parts) return parts.error();
  options.listen = text;
  std::tie(options.listen_host, options.listen_port) = std::move(*parts);
  return {};
}

Result<void> set_listen_metrics(Options& options, const std::string& text) {
  options.listen_metrics = text;
  if (text.empty()) return {};
  Result<std::pair<std::string, std::uint16_t>> parts = listen_parts(text);
  if (!parts) return parts.error();
  std::tie(options.metrics_host, options.metrics_port) = std::move(*parts);
  return {};
}

Result<void> set_flag(bool& value, const std::string& text) {
  if (text != "true" && text != "false") return refused(text, "is neither true nor false");
  value = text == "true";
  return {};
}

std::string flag_text(bool value) { return value ? "true" : "false"; }

Result<void> set_engine(Options& options, const std::string& text) {
  const auto follows = [&](std::string_view scheme) {
    return text.starts_with(scheme) && text.size() > scheme.size();
  };
  if (text != "memory:" && !follows(kRocks) && !follows("redis://") &&
      !follows("redis+sentinel://") && !follows("rediss://") && !follows("rediss+sentinel://")) {
    const bool path = text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
    return failure(Code::invalid_argument,
                   "invalid engine \"{}\"; {}use memory:, rocksdb:/path or redis://host:port",
                   store::without_password(text),
                   path ? format("did you mean \"{}{}\"? ", kRocks, absolute_path(text)) : "");
  }
  if (follows(kRocks) && text[kRocks.size()] != '/') {
    return failure(Code::invalid_argument, "invalid engine \"{}\": the path is relative; use {}{}",
                   text, kRocks, absolute_path(text.substr(kRocks.size())));
  }
  if (follows(kRocks)) {
    const std::string state = absolute_path(text.substr(kRocks.size()));
    if (std::filesystem::path(state).relative_path().empty()) {
      return failure(Code::invalid_argument,
                     "invalid engine \"{}\": the state would be in /; use a directory of its own, "
                     "as in rocksdb:/var/lib/c10dd",
                     text);
    }
    options.engine = std::string(kRocks) + state;
    return {};
  }
  options.engine = text;
  return {};
}

bool is_insecure_redis(const std::string& engine) {
  const bool plain = engine.starts_with("redis:") || engine.starts_with("redis+sentinel:");
  if (!plain) return false;
  const std::size_t begin = engine.find("//") + 2;
  std::string_view hosts = std::string_view(engine).substr(begin);
  hosts = hosts.substr(0, hosts.find('/', hosts.rfind('@') + 1));
  hosts.remove_prefix(hosts.rfind('@') + 1);
  for (const std::string& host : names_of(hosts)) {
    const Result<AddressParts> parts = split_address(host);
    if (!parts || !is_loopback(parts->host)) return true;
  }
  return false;
}

std::string state_path(const Options& options) {
  return options.engine.starts_with(kRocks) ? options.engine.substr(kRocks.size()) : "";
}

Result<void> set_durability(Options& options, const std::string& text) {
  for (const auto& [name, durability] : kDurabilities) {
    if (text != name) continue;
    options.durability = durability;
    return {};
  }
  return failure(
      Code::invalid_argument,
      "unknown durability \"{}\"; use fsync (survives power loss), os (survives a crash of "
      "the daemon) or none (survives SIGTERM only)",
      text);
}

std::string durability_text(const Options& options) {
  for (const auto& [name, durability] : kDurabilities) {
    if (options.durability == durability) return std::string(name);
  }
  return {};
}

Result<void> set_log_level(Options& options, const std::string& text) {
  if (std::find(std::begin(kLogLevels), std::end(kLogLevels), text) == std::end(kLogLevels)) {
    std::string known;
    for (const std::string_view level : kLogLevels) {
      known.append(known.empty() ? "" : ", ").append(level);
    }
    return failure(Code::invalid_argument, "unknown log level \"{}\"; use one of {}", text, known);
  }
  options.log_level = text;
  return {};
}

Result<void> set_protocols(Options& options, const std::string& text) {
  ProtocolSet spoken;
  std::size_t count = 0;
  for (const std::string& name : names_of(text)) {
    const auto known = std::find_if(std::begin(kProtocols), std::end(kProtocols),
                                    [&](const ProtocolName& entry) { return entry.name == name; });
    const bool good = known != std::end(kProtocols) && !spoken.has(known->protocol);
    if (!good) return invalid_protocols(text);
    spoken.add(known->protocol);
    ++count;
  }
  if (count == 0 || text.ends_with(',')) return invalid_protocols(text);
  options.protocols = spoken;
  return {};
}

Result<void> set_advertise(Options& options, const std::string& text) {
  const std::vector<std::string> addresses = names_of(text);
  const auto refused = [&text](const std::string& address, const char* why) {
    return failure(
        Code::invalid_argument,
        "invalid address \"{}\" in \"{}\": {}; use host:port, separated by commas without "
        "spaces, for example head1:29500,10.0.0.1:29500",
        address, text, why);
  };
  for (const std::string& address : addresses) {
    const Result<AddressParts> parts = split_address(address);
    const auto port = parts && parts->port ? parse_number<std::uint16_t>(*parts->port)
                                           : std::optional<std::uint16_t>();
    if (!port || *port == 0) return refused(address, "the port must be 1 to 65535");
    const std::string host(parts->host);
    if (parts->bracketed ? !is_ipv6(host) : !is_name(host)) {
      return refused(address, "the host is not a valid name or IP address");
    }
    if (host == "0.0.0.0" || host == "::") {
      return refused(address, "clients cannot connect to this host");
    }
    if (is_link_local(host)) {
      return refused(address, "a link-local address is not valid on other machines");
    }
    if (std::ranges::count(addresses, address) > 1) return refused(address, "it is listed twice");
  }
  if (addresses.size() > limits::kAdvertised) {
    return failure(Code::invalid_argument, "too many addresses: {}, limit {}", addresses.size(),
                   limits::kAdvertised);
  }
  options.advertise = text;
  return {};
}

std::vector<std::string> advertised(const Options& options) { return names_of(options.advertise); }

Result<void> set_path(std::string& value, const std::string& text) {
  value = text;
  return {};
}

Result<void> set_http_hosts(Options& options, const std::string& text) {
  for (const std::string& name : names_of(text)) {
    if (is_name(name) || is_ipv6(name)) continue;
    return failure(Code::invalid_argument,
                   "invalid host name \"{}\" in \"{}\"; use names or addresses without ports, "
                   "separated by commas, for example head,head.lan",
                   name, text);
  }
  options.http_hosts = text;
  return {};
}

Result<void> set_tcpstore_job(Options& options, const std::string& text) {
  if (Result<void> good = check_name("job", text); !good) return good;
  options.tcpstore_job = text;
  return {};
}

Result<void> set_tcpstore_from(Options& options, const std::string& text) {
  Result<AddressRanges> ranges = AddressRanges::parse(text);
  if (!ranges) return ranges.error();
  options.tcpstore_from = text;
  options.tcpstore_ranges = std::move(*ranges);
  return {};
}

Result<void> set_tcpstore_legacy(Options& options, const std::string& text) {
  for (const auto& [name, legacy] : kLegacyClients) {
    if (text != name) continue;
    options.tcpstore_legacy = legacy;
    return {};
  }
  return failure(Code::invalid_argument,
                 "unknown TCPStore version \"{}\"; use auto, 2.0 (PyTorch 1.9 to 2.0) or 2.1",
                 text);
}

std::string tcpstore_legacy_text(const Options& options) {
  for (const auto& [name, legacy] : kLegacyClients) {
    if (options.tcpstore_legacy == legacy) return std::string(name);
  }
  return {};
}

Result<void> set_endpoint_ports(Options& options, const std::string& text) {
  if (text.empty()) {
    options.endpoint_ports.reset();
    return {};
  }
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto low = parse_number<std::uint16_t>(std::string_view(text).substr(0, dash));
  const auto high =
      parse_number<std::uint16_t>(std::string_view(text).substr(std::min(dash + 1, text.size())));
  if (!low || !high || *low == 0 || *low > *high) {
    return refused(text,
                   "is not a range of ports; use LOW-HIGH with 1 to 65535 and LOW not above HIGH, "
                   "for example 29600-29699");
  }
  options.endpoint_ports = PortRange{*low, *high};
  return {};
}

std::string endpoint_ports_text(const Options& options) {
  const auto& ports = options.endpoint_ports;
  return ports ? format("{}-{}", ports->low, ports->high) : "";
}

ListenerSettings metrics_listener(const Options& options) {
  ListenerSettings settings;
  settings.host = options.metrics_host;
  settings.port = options.metrics_port;
  settings.protocols = ProtocolSet{Protocol::http};
  return settings;
}

ListenerSettings main_listener(const Options& options) {
  ListenerSettings settings;
  settings.host = options.listen_host;
  settings.port = options.listen_port;
  settings.protocols = options.protocols;
  settings.tcpstore_job = options.tcpstore_job;
  settings.tcpstore_from = options.tcpstore_ranges;
  settings.legacy = options.tcpstore_legacy;
  return settings;
}

bool replies_to(const Options& options, std::string_view host) {
  if (!is_loopback(options.listen_host)) return true;
  const std::string name = host_in_field(host);
  if (name.empty()) return false;
  if (is_loopback(name)) return true;
  const std::vector<std::string> names = names_of(options.http_hosts);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& known) { return lower(known) == name; });
}

std::string list_of(const ProtocolSet& protocols) { return list_of(protocols, ","); }

std::string protocols_text(const Options& options) { return list_of(options.protocols); }

Result<std::string> default_engine() {
  if (const auto given = environment("STATE_DIRECTORY")) {
    return rocks_at(given->substr(0, given->find(':')));  // systemd separates paths by colons
  }
  if (::geteuid() == 0) return std::string("rocksdb:/var/lib/c10dd");
  const auto base = environment("XDG_STATE_HOME");
  if (base && base->front() == '/') return rocks_at(*base + "/c10dd");
  if (const auto directory = home()) return rocks_at(*directory + "/.local/state/c10dd");
  return failure(Code::invalid_argument,
                 "no default, because user {} has no home directory; set the engine, for example "
                 "to rocksdb:/path",
                 ::geteuid());
}

}  // namespace c10dd::daemon
