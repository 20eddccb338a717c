// SPDX-License-Identifier: Apache-2.0
// Sends one POST over HTTP. Blocks without a time limit, because copying a large state takes long.
#include "daemon/checkpoint_request.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "daemon/access.h"
#include "daemon/config/file_text.h"
#include "protocol/exit_codes.h"

namespace c10dd::daemon {
namespace {

namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

/// Returns the token that C10DD_TOKEN or C10DD_TOKEN_FILE gives; empty if neither is set.
Result<std::string> token() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string text = variable("C10DD_TOKEN");
  if (const std::string path = variable("C10DD_TOKEN_FILE"); text.empty() && !path.empty()) {
    Result<std::string> file = file_text(path, "C10DD_TOKEN_FILE: " + path);
    if (!file) return file;
    text = std::move(*file);
  }
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.pop_back();
  return text;
}

Result<std::string> message_of(const Options& options, const std::string& folder) {
  http::request<http::string_body> request(http::verb::post, "/v1/checkpoint", 11);
  request.set(http::field::host, options.listen);
  request.keep_alive(false);
  request.set(http::field::content_type, "application/json");
  const Result<std::string> shown = options.tls.empty() ? std::string() : token();
  if (!shown) return shown;
  if (!shown->empty()) request.set(http::field::authorization, "Bearer " + *shown);
  request.body() = boost::json::serialize(boost::json::value{{"path", folder}});
  request.prepare_payload();
  std::ostringstream text;
  text << request;
  return std::move(text).str();
}

/// Sends the request to the daemon, and returns all that it replies.
Result<Bytes> ask(const Options& options, const std::string& request) {
  ErrorCode failed;
  asio::io_context loop;
  Tcp::socket socket(loop);
  const auto found =
      Tcp::resolver(loop).resolve(options.listen_host, std::to_string(options.listen_port), failed);
  if (!failed) asio::connect(socket, found, failed);
  if (!failed && !options.tls.empty()) return ask_over_tls(options, socket, request);
  if (!failed) asio::write(socket, asio::buffer(request), failed);
  Bytes reply;
  if (!failed) asio::read(socket, asio::dynamic_buffer(reply), failed);
  if (failed != asio::error::eof) return failure(Code::unavailable, failed.message());
  return reply;
}

}  // namespace

int request_checkpoint(const Options& options, const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).string();
  const Result<std::string> request = message_of(options, absolute);
  const Result<Bytes> bytes = request ? ask(options, *request) : Result<Bytes>(request.error());
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  ErrorCode failed;
  if (bytes) parser.put(asio::buffer(*bytes), failed);
  if (failed == http::error::need_more) failed = {};
  if (bytes && !failed) parser.put_eof(failed);
  if (!bytes && bytes.error().code != Code::unavailable) {
    std::fprintf(stderr, "c10dd: %s\n", bytes.error().detail.c_str());
    return exit_code::kUsage;
  }
  if (!bytes || failed) {
    std::fprintf(stderr, "c10dd: checkpoint: no daemon answers HTTP at %s: %s\n",
                 options.listen.c_str(),
                 bytes ? failed.message().c_str() : bytes.error().detail.c_str());
    return exit_code::kUnreachable;
  }
  const auto& reply = parser.get();
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
