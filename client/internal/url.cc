// SPDX-License-Identifier: Apache-2.0
#include "client/internal/url.h"

#include <algorithm>

#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/names.h"
#include "protocol/parse.h"
#include "protocol/percent.h"
#include "protocol/utf8.h"

namespace c10dd::client {
namespace {

constexpr std::string_view kScheme = "c10dd://";
constexpr std::size_t kUrlShown = 120;

Failure bad_url(std::string_view text, const std::string& what) {
  return failure(Code::invalid_argument,
                 "invalid URL \"{}\": {}; expected c10dd://host:port/job, with "
                 "commas between the addresses of several daemons",
                 printable(text, kUrlShown), what);
}

/// Parses one address of the URL `text`.
Result<HostPort> parse_daemon(std::string_view text, std::string_view address) {
  const Result<AddressParts> parts = split_address(address);
  if (!parts) return bad_url(text, parts.error().detail);
  HostPort daemon{std::string(parts->host)};
  if (daemon.host.find_first_of("@?#[] ") != std::string::npos ||
      printable(daemon.host, daemon.host.size()) != daemon.host) {
    return bad_url(text, format("the host \"{}\" has a character that is not valid in a host name",
                                printable(daemon.host, kUrlShown)));
  }
  if (is_link_local(daemon.host)) {
    // RFC 6874 writes %25 before the interface, people write %.
    const std::size_t scope = daemon.host.find('%');
    if (scope == std::string::npos) {
      return bad_url(text, format("the host {} is a link-local address and needs its interface; "
                                  "write for example [{}%eth0]",
                                  daemon.host, daemon.host));
    }
    if (daemon.host.compare(scope, 3, "%25") == 0 && scope + 3 < daemon.host.size()) {
      daemon.host.erase(scope + 1, 2);
    }
  }
  if (!parts->port) return daemon;
  const auto number = parse_number<std::uint16_t>(*parts->port);
  if (!number || *number == 0) {
    return bad_url(text, format("the port \"{}\" is not an integer from 1 to 65535",
                                printable(*parts->port, kUrlShown)));
  }
  daemon.port = *number;
  return daemon;
}

Result<std::vector<HostPort>> parse_daemons(std::string_view text, std::string_view authority) {
  const auto count = static_cast<std::size_t>(std::ranges::count(authority, ',')) + 1;
  if (count > kDaemonsInUrl) {
    return bad_url(text,
                   format("it has {} addresses, limit {}; leave some out, because a client learns "
                          "the addresses of all daemons from the first that it finds",
                          count, kDaemonsInUrl));
  }
  std::vector<HostPort> daemons;
  for (std::size_t at = 0; at <= authority.size();) {
    const std::size_t comma = std::min(authority.find(',', at), authority.size());
    const std::string_view address = authority.substr(at, comma - at);
    at = comma + 1;
    if (address.empty() && count > 1) {
      return bad_url(text, "an address is empty: a comma has nothing before or after it");
    }
    Result<HostPort> daemon = parse_daemon(text, address);
    if (!daemon) return daemon.error();
    if (std::ranges::find(daemons, *daemon) != daemons.end()) {
      return bad_url(text, format("it names the address {} twice; name it once", daemon->text()));
    }
    daemons.push_back(std::move(*daemon));
  }
  return daemons;
}

/// Returns the URL from the environment. `job` is the job's name from C10DD_JOB or the launcher; it
/// may be empty.
Result<std::string> read_url(const Environment& environment, const std::string& job) {
  const auto get = [&](const char* name) {
    const char* text = environment(name);
    return std::string(text == nullptr ? "" : text);
  };
  const auto checked = [](const char* name, const std::string& url) -> Result<std::string> {
    if (const Result<Url> good = parse_url(url); !good) {
      return failure(Code::invalid_argument, "{}: {}", name, good.error().detail);
    }
    return url;
  };
  if (const std::string url = get("C10DD_URL"); !url.empty()) return checked("C10DD_URL", url);
  const std::string address = get("C10DD_ADDR");
  if (address.empty()) {
    return failure(Code::invalid_argument,
                   "neither C10DD_URL nor C10DD_ADDR is set; set C10DD_URL to "
                   "c10dd://host:port/job");
  }
  if (job.empty()) {
    return failure(Code::invalid_argument,
                   "C10DD_JOB is not set, and the launcher does not name a job; set C10DD_JOB in "
                   "addition to C10DD_ADDR, or set C10DD_URL to c10dd://host:port/job");
  }
  return checked(
      get("C10DD_JOB").empty() ? "C10DD_ADDR and the launcher's job" : "C10DD_ADDR and C10DD_JOB",
      std::string(kScheme) + address + "/" + encoded_job(job));
}

}  // namespace

std::string HostPort::text() const { return address_text(host, port); }

std::string Url::addresses() const {
  std::string list;
  for (const HostPort& daemon : daemons) list += (list.empty() ? "" : ",") + daemon.text();
  return list;
}

std::string encoded_job(std::string_view job) {
  std::string out;
  for (const char c : job) out += c == '%' ? std::string("%25") : std::string(1, c);
  return out;
}

std::string Url::text() const {
  return std::string(kScheme) + addresses() + "/" + encoded_job(job);
}

Result<Url> parse_url(std::string_view text) {
  if (!text.starts_with(kScheme)) return bad_url(text, "the scheme is not c10dd://");
  const std::string_view rest = text.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  Url url;
  Result<std::vector<HostPort>> daemons = parse_daemons(text, rest.substr(0, slash));
  if (!daemons) return daemons.error();
  url.daemons = std::move(*daemons);
  if (slash == std::string_view::npos || slash + 1 == rest.size()) {
    return bad_url(text, "the job is missing");
  }
  std::optional<std::string> job = percent_decoded(rest.substr(slash + 1));
  if (!job) {
    return bad_url(text,
                   "the job's name has a '%' that is not followed by two hexadecimal digits; write "
                   "%25 for a '%'");
  }
  url.job = std::move(*job);
  if (const Result<void> good = check_name("job", url.job); !good) {
    return bad_url(text, good.error().detail);
  }
  if (url.job.find_first_of("/?#") != std::string::npos) {
    return bad_url(text, "the job's name has a slash, '?' or '#'");
  }
  return url;
}

Result<Launch> read_environment(const Environment& environment) {
  const auto is_set = [&](const char* name) {
    const char* text = environment(name);
    return text != nullptr && *text != '\0';
  };
  Result<LaunchEnvironment> found = read_launch_environment(environment);
  if (!found) return found.error();
  Result<std::string> url = read_url(environment, found->job);
  if (!url) return url.error();
  Launch launch;
  launch.url = std::move(*url);
  // The launcher's run name is for the launcher's job only. It is not used if the user has named
  // the job.
  const bool named_by_hand = is_set("C10DD_URL") || is_set("C10DD_JOB");
  if (!named_by_hand || is_set("C10DD_RUN")) launch.options.run = std::move(found->run);
  launch.options.rank = found->rank;
  launch.options.world_size = found->world_size;
  launch.options.launcher = found->summary();
  return launch;
}

}  // namespace c10dd::client
