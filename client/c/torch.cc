// SPDX-License-Identifier: Apache-2.0
// Implements the functions of c10dd.h for trainers in PyTorch: endpoints and the node proxy.
#include "client/c/block.h"
#include "client/c/guard.h"
#include "client/c/objects.h"
#include "client/internal/announcer.h"
#include "protocol/limits.h"

namespace c10dd::c {
namespace {

c10dd_endpoint* copy(const LeasedEndpoint& from) {
  Block block;
  auto* const to = block.array<c10dd_endpoint>(1);
  *to = {block.text(from.host), from.port, from.ttl.count()};
  return block.release(to);
}

proxy::ProxySettings settings_of(const ClientObject& object, const c10dd_proxy_options& options) {
  proxy::ProxySettings settings;
  for (const client::HostPort& daemon : object.url.daemons) {
    settings.daemons.push_back(daemon.text());
  }
  settings.job = object.url.job;
  settings.run = options.run == nullptr ? object.client->run() : options.run;
  settings.host = object.client->host();
  settings.says_absences = options.says_absences != 0;
  settings.credentials = object.credentials;
  if (client::says_on_stderr(client::process_environment())) settings.say = client::say_on_stderr;
  return settings;
}

}  // namespace
extern "C" {

c10dd_code c10dd_lease_endpoint(c10dd_client* client, c10dd_view name,
                                const c10dd_endpoint_options* options, const c10dd_call* call,
                                c10dd_endpoint** endpoint, c10dd_error* error) {
  return guarded(error, [&] {
    require(endpoint, "the output pointer for the endpoint");
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    const auto from =
        options_of<c10dd_endpoint_options>(options, C10DD_ENDPOINT_OPTIONS_INIT, "the options");
    *endpoint = copy(object->client->lease_endpoint(
        std::string(bytes_of(name, "the name of the endpoint")),
        {text_of(from.run), Duration(from.ttl_ns), from.world_size}));
  });
}

c10dd_code c10dd_proxy_open(c10dd_client* client, const c10dd_proxy_options* options,
                            c10dd_proxy** proxy, c10dd_error* error) {
  return guarded(error, [&] {
    require(proxy, "the output pointer for the proxy");
    const auto object = handles().find<ClientObject>(client);
    const auto from =
        options_of<c10dd_proxy_options>(options, C10DD_PROXY_OPTIONS_INIT, "the options");
    *proxy = static_cast<c10dd_proxy*>(
        handles().add(std::make_shared<ProxyObject>(settings_of(*object, from))));
  });
}

c10dd_code c10dd_proxy_port(c10dd_proxy* proxy, uint16_t* port, c10dd_error* error) {
  return guarded(error, [&] {
    require(port, "the output pointer for the port");
    *port = handles().find<ProxyObject>(proxy)->proxy.port();
  });
}

c10dd_code c10dd_proxy_count(c10dd_proxy* proxy, c10dd_proxy_counts* counts, c10dd_error* error) {
  return guarded(error, [&] {
    require(counts, "the output pointer for the counts");
    const proxy::ProxyCounts now = handles().find<ProxyObject>(proxy)->proxy.counts();
    *counts = {now.clients, now.accepted,   now.refused, now.closed,
               now.waits,   now.unanswered, now.reissued};
  });
}

c10dd_code c10dd_proxy_wait_left(c10dd_proxy* proxy, const c10dd_call* call, c10dd_error* error) {
  return guarded(error, [&] {
    const Call scope(call);
    // Not the proxy itself, which would then outlive its handle.
    const auto left = handles().find<ProxyObject>(proxy)->proxy.clients_left();
    left->wait(scope.timeout(limits::kTimeoutMax));
  });
}

c10dd_code c10dd_proxy_close(c10dd_proxy* proxy, c10dd_error* error) {
  return guarded(error, [&] { handles().take<ProxyObject>(proxy)->proxy.clients_left()->close(); });
}
}

}  // namespace c10dd::c
