// SPDX-License-Identifier: Apache-2.0
#include "protocol/ops.h"

#include <type_traits>

namespace c10dd {

static_assert(std::is_nothrow_move_constructible_v<detail::AnyRequest> &&
              std::is_nothrow_move_assignable_v<detail::AnyRequest>);
Request::Request() = default;
Request::Request(const Request&) = default;
Request::Request(Request&&) noexcept = default;
Request& Request::operator=(const Request&) = default;
Request& Request::operator=(Request&&) noexcept = default;
Request::~Request() = default;

static_assert(std::is_nothrow_move_constructible_v<detail::AnyReply> &&
              std::is_nothrow_move_assignable_v<detail::AnyReply>);
ReplyBody::ReplyBody() = default;
ReplyBody::ReplyBody(const ReplyBody&) = default;
ReplyBody::ReplyBody(ReplyBody&&) noexcept = default;
ReplyBody& ReplyBody::operator=(const ReplyBody&) = default;
ReplyBody& ReplyBody::operator=(ReplyBody&&) noexcept = default;
ReplyBody::~ReplyBody() = default;

}  // namespace c10dd
