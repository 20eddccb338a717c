// SPDX-License-Identifier: Apache-2.0
// One HTTP request to a daemon, over a connection of its own.
#pragma once

#include <chrono>
#include <string>

#include "client/internal/url.h"
#include "protocol/error.h"

namespace c10dd::ctl {

struct Request {
  std::string method = "GET";
  std::string path;
  std::string accept = "application/json";
  std::string body = {};  ///< JSON; empty: none
};

struct Reply {
  int status = 0;
  std::string body;
};

/// Sends a request, and waits for the whole reply. Fails with unavailable if no connection is made,
/// so that the request was not received, and with timed_out if it may have been; the texts name the
/// daemon. Thread-safe.
Result<Reply> ask(const client::HostPort& daemon, const Request& request,
                  std::chrono::milliseconds timeout);

/// Returns the text as a part of a path, percent-encoded.
std::string in_path(const std::string& text);

}  // namespace c10dd::ctl
