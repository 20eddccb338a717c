// SPDX-License-Identifier: Apache-2.0
// The pages of daemons in JSON: asks for them, reads their members, and turns failures into exit
// codes. A page may have anything in it: what is not of the expected type reads as missing.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "client/ctl/arguments.h"
#include "client/ctl/outcome.h"
#include "client/ctl/request.h"
#include "client/ctl/table.h"

namespace c10dd::ctl {

/// Returns a member of an object as text for a cell; empty if it is missing or null.
std::string cell(const boost::json::value& of, std::string_view pointer);
/// Returns a member of an object; nothing if it is missing or no number.
std::optional<double> number_in(const boost::json::value& of, std::string_view pointer);
/// Returns a member of an object; an empty list if it is missing or no list.
const boost::json::array& list_in(const boost::json::value& page, std::string_view name);

/// The reply of the first daemon that answers, or why none does.
struct FirstReply {
  std::optional<Reply> reply;
  std::string daemon;  ///< its address
  Outcome failed;      ///< without a reply
};

/// Asks one daemon after the other until one replies. A request that changes something is not sent
/// to a second one if the first may have received it.
FirstReply ask_any(const Arguments& of, const Request& request);

/// Returns the exit code and the text for a reply that is not a success.
Outcome refused(const Reply& reply);

/// A page in JSON, or why there is none.
struct Page {
  std::optional<boost::json::value> body;  ///< an object
  Outcome failed = {};                     ///< without a body
  int status = 0;                          ///< of HTTP; 0: no daemon has replied
};

Page page_of(const FirstReply& first);

/// Shows a page as JSON or as a table, as the command line says, with the problem that it names.
Outcome shown(const Arguments& of, const boost::json::value& page, const Table& table);

}  // namespace c10dd::ctl
