// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/page.h"

#include <boost/json/parse.hpp>

#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/json_text.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;

/// The exit code for a reply that is not a success.
int code_of(int status) {
  if (status == 403) return exit_code::kNoPermission;
  const bool temporary = status == 409 || (status >= 500 && status != 501);
  return temporary ? exit_code::kTryAgain : exit_code::kUsage;
}

Outcome unreachable(const Failure& why) {
  const bool sent = why.code == Code::timed_out;
  return {sent ? exit_code::kTryAgain : exit_code::kUnreachable, "", why.detail};
}

}  // namespace

std::string cell(const json::value& of, std::string_view pointer) {
  boost::system::error_code none;
  const json::value* const found = of.find_pointer(pointer, none);
  if (found == nullptr || found->is_null()) return {};
  if (const auto* const text = found->if_string()) return std::string(*text);
  if (found->is_bool()) return found->as_bool() ? "yes" : "no";
  return c10dd::json::text_of(*found);
}

std::optional<double> number_in(const json::value& of, std::string_view pointer) {
  boost::system::error_code none;
  const json::value* const found = of.find_pointer(pointer, none);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->to_number<double>();
}

const json::array& list_in(const json::value& page, std::string_view name) {
  static const json::array none;
  boost::system::error_code failed;
  const json::value* const found = page.find_pointer("/" + std::string(name), failed);
  return found != nullptr && found->is_array() ? found->get_array() : none;
}

Outcome refused(const Reply& reply) {
  boost::system::error_code failed;
  const json::value body = json::parse(reply.body, failed);
  const std::string detail = failed ? "" : cell(body, "/error/detail");
  return {code_of(reply.status), "",
          detail.empty() ? format("HTTP status {}: {}", reply.status, reply.body) : detail};
}

FirstReply ask_any(const Arguments& of, const Request& request) {
  FirstReply first;
  for (const client::HostPort& daemon : of.daemons) {
    Result<Reply> reply = ask(daemon, request, of.timeout);
    if (reply) {
      first.reply = std::move(*reply);
      first.daemon = daemon.text();
      return first;
    }
    const std::string before = first.failed.error.empty() ? "" : first.failed.error + "\n";
    first.failed = unreachable(reply.error());
    first.failed.error = before + first.failed.error;
    if (reply.error().code == Code::timed_out && request.method != "GET") break;
  }
  return first;
}

Page page_of(const FirstReply& first) {
  if (!first.reply) return {{}, first.failed};
  const int status = first.reply->status;
  if (status != 200) return {{}, refused(*first.reply), status};
  boost::system::error_code failed;
  json::value body = json::parse(first.reply->body, failed);
  if (!failed && body.is_object()) return {std::move(body), {}, status};
  const Outcome other = {
      exit_code::kUnreachable, "",
      format("the server at {} is not a c10dd daemon: {}; check the address", first.daemon,
             failed ? failed.message() : "its reply is not a JSON object")};
  return {{}, other, status};
}

Outcome shown(const Arguments& of, const json::value& page, const Table& table) {
  Outcome outcome{0, of.json ? c10dd::json::text_of(page) + "\n" : table.text(), {}};
  const std::string problem = cell(page, "/problem");
  if (!problem.empty()) outcome = {exit_code::kTryAgain, outcome.output, problem};
  return outcome;
}

}  // namespace c10dd::ctl
