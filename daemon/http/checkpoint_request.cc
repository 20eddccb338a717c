// SPDX-License-Identifier: Apache-2.0
// Sends one POST over HTTP. Blocks without a time limit, because copying a large state takes long.
#include "daemon/http/checkpoint_request.h"
#include "protocol/exit_codes.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <filesystem>

namespace c10dd::daemon {

int request_checkpoint(const Options& options, const std::string& path) {
  namespace asio = boost::asio;
  namespace http = boost::beast::http;
  const std::string absolute = std::filesystem::absolute(path).string();
  const boost::json::value body = {{"path", absolute}};
  http::request<http::string_body> request(http::verb::post, "/v1/checkpoint", 11);
  request.set(http::field::host, options.listen);
  request.set(http::field::content_type, "application/json");
  request.body() = boost::json::serialize(body);
  request.prepare_payload();

  boost::system::error_code failed;
  asio::io_context loop;
  asio::ip::tcp::socket socket(loop);
  const auto found = asio::ip::tcp::resolver(loop).resolve(
      options.listen_host, std::to_string(options.listen_port), failed);
  if (!failed) asio::connect(socket, found, failed);
  if (!failed) http::write(socket, request, failed);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> reply;
  if (!failed) http::read(socket, buffer, reply, failed);
  if (failed) {
    std::fprintf(stderr, "c10dd: checkpoint: no daemon answers HTTP at %s: %s\n",
                 options.listen.c_str(), failed.message().c_str());
    return exit_code::kUnreachable;
  }
  if (reply.result() == http::status::ok) {
    std::printf("checkpoint written to %s\n", absolute.c_str());
    return 0;
  }
  const boost::json::value reason = boost::json::parse(reply.body(), failed);
  const auto* detail = failed ? nullptr : reason.find_pointer("/error/detail", failed);
  std::fprintf(stderr, "c10dd: %s\n",
               detail && detail->is_string() ? detail->get_string().c_str() : reply.body().c_str());
  // 5xx replies other than 501 are temporary, for example while the daemon starts or drains.
  const bool final = reply.result_int() < 500 || reply.result() == http::status::not_implemented;
  return final ? exit_code::kUsage : exit_code::kTryAgain;
}

}  // namespace c10dd::daemon
