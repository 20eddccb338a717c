// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/effects.h"

#include <type_traits>

namespace c10dd::core {

static_assert(std::is_nothrow_move_constructible_v<detail::AnyEvent> &&
              std::is_nothrow_move_assignable_v<detail::AnyEvent>);
Event::Event() = default;
Event::Event(const Event&) = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(const Event&) = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

}  // namespace c10dd::core
