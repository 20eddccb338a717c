// SPDX-License-Identifier: Apache-2.0
// Implements the functions of c10dd.h for clients, barriers and exchanges.
#include "client/client.h"

#include "client/c/block.h"
#include "client/c/exchange_options.h"
#include "client/c/guard.h"
#include "client/c/objects.h"
#include "client/internal/launch_environment.h"
#include "client/internal/throw_failure.h"
#include "protocol/format.h"

namespace c10dd::c {
namespace {

/// Returns the arguments of Client::connect(): those of the environment if `url` is null.
client::Launch launch_of(const char* url, const c10dd_connect_options& options) {
  client::Launch launch;
  if (url != nullptr) {
    launch.url = url;
  } else {
    Result<client::Launch> read = client::read_environment(client::process_environment());
    if (!read) client::throw_failure(read.error());
    launch = std::move(*read);
  }
  ClientOptions& to = launch.options;
  if (options.rank != -1) to.rank = options.rank;
  if (options.world_size != -1) to.world_size = options.world_size;
  if (options.run != nullptr) to.run = options.run;
  if (options.host != nullptr) to.host = options.host;
  if (options.launcher != nullptr) to.launcher = options.launcher;
  if (options.timeout_ns != -1) to.timeout = Duration(options.timeout_ns);
  if (options.session_expiry_ns != 0) to.session_expiry = Duration(options.session_expiry_ns);
  to.credentials = {text_of(options.token), text_of(options.token_file), text_of(options.ca_file),
                    text_of(options.cert_file), text_of(options.key_file)};
  return launch;
}

std::shared_ptr<ClientObject> connect(client::Launch launch) {
  const Result<client::Url> url = client::parse_url(launch.url);
  if (!url) client::throw_failure(url.error());
  const std::int64_t rank = launch.options.rank;
  const std::int64_t world_size = launch.options.world_size;
  Credentials credentials = launch.options.credentials;
  return std::make_shared<ClientObject>(Client::connect(launch.url, std::move(launch.options)),
                                        *url, rank, world_size, std::move(credentials));
}

c10dd_client_info* info_of(const ClientObject& object) {
  const Client& client = *object.client;
  const ClientStats stats = client.stats();
  Block block;
  auto* const info = block.array<c10dd_client_info>(1);
  info->job = block.text(client.job());
  info->run = block.text(client.run());
  info->host = block.text(client.host());
  info->address = block.text(client.address());
  info->rank = object.rank;
  info->world_size = object.world_size;
  info->connects = stats.connects;
  info->reissued = stats.reissued;
  info->calls = stats.calls;
  info->failures = stats.failures;
  info->sessions_lost = stats.sessions_lost;
  info->away_ns = stats.away.count();
  return block.release(info);
}

c10dd_launch* launch_block() {
  const client::Environment environment = client::process_environment();
  const Result<client::LaunchEnvironment> read = client::read_launch_environment(environment);
  if (!read) client::throw_failure(read.error());
  Block block;
  auto* const launch = block.array<c10dd_launch>(1);
  if (const Result<client::Launch> whole = client::read_environment(environment)) {
    launch->url = block.text(whole->url);
  }
  launch->source = block.text(read->source);
  launch->job = block.text(read->job);
  launch->run = block.text(read->run);
  launch->rank = read->rank;
  launch->world_size = read->world_size;
  launch->local_rank = read->local_rank;
  launch->local_world_size = read->local_world_size;
  launch->node_rank = read->node_rank;
  launch->summary = block.text(read->summary());
  return block.release(launch);
}

}  // namespace

ExchangeOptions exchange_of(const c10dd_barrier_options& from) {
  if (from.shape < C10DD_ALL || from.shape > C10DD_TRANSPOSE) {
    throw InvalidArgument(
        format("the shape of the exchange is {}: give a value of c10dd_shape, 0 to {}", from.shape,
               static_cast<int>(C10DD_TRANSPOSE)));
  }
  ExchangeOptions options;
  options.rank = from.rank;
  options.world_size = from.world_size;
  options.generation = from.generation;
  options.shape = static_cast<ExchangeShape>(from.shape);
  options.root = from.root;
  options.awaits_earlier = from.awaits_earlier != 0;
  return options;
}

extern "C" {

c10dd_code c10dd_connect(const char* url, const c10dd_connect_options* options,
                         const c10dd_call* call, c10dd_client** client, c10dd_error* error) {
  return guarded(error, [&] {
    require(client, "the output pointer for the client");
    const Call scope(call);
    const auto wanted =
        options_of<c10dd_connect_options>(options, C10DD_CONNECT_OPTIONS_INIT, "the options");
    *client = static_cast<c10dd_client*>(handles().add(connect(launch_of(url, wanted))));
  });
}

c10dd_code c10dd_client_close(c10dd_client* client, c10dd_error* error) {
  return guarded(error, [&] { handles().take<ClientObject>(client)->close(); });
}

c10dd_code c10dd_client_describe(c10dd_client* client, c10dd_client_info** info,
                                 c10dd_error* error) {
  return guarded(error, [&] {
    require(info, "the output pointer for the description");
    *info = info_of(*handles().find<ClientObject>(client));
  });
}

c10dd_code c10dd_read_launch(c10dd_launch** launch, c10dd_error* error) {
  return guarded(error, [&] {
    require(launch, "the output pointer for the launch");
    *launch = launch_block();
  });
}

c10dd_code c10dd_barrier(c10dd_client* client, c10dd_view name,
                         const c10dd_barrier_options* options, const c10dd_call* call,
                         c10dd_error* error) {
  return guarded(error, [&] {
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    const auto from =
        options_of<c10dd_barrier_options>(options, C10DD_BARRIER_OPTIONS_INIT, "the options");
    BarrierOptions to{from.rank, from.world_size, from.generation};
    to.timeout = scope.timeout(to.timeout);
    object->client->barrier(std::string(bytes_of(name, "the name of the barrier")), to);
  });
}

c10dd_code c10dd_exchange(c10dd_client* client, c10dd_view name, const c10dd_view* parts,
                          size_t count, const c10dd_barrier_options* options,
                          const c10dd_call* call, c10dd_list* received, c10dd_error* error) {
  return guarded(error, [&] {
    require(received, "the output pointer for the parts");
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    ExchangeOptions to = exchange_of(
        options_of<c10dd_barrier_options>(options, C10DD_BARRIER_OPTIONS_INIT, "the options"));
    to.timeout = scope.timeout(to.timeout);
    *received =
        copy(object->client->exchange(std::string(bytes_of(name, "the name of the exchange")),
                                      strings_of(parts, count, "a part of the exchange"), to));
  });
}
}

}  // namespace c10dd::c
