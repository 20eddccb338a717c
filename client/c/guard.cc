// SPDX-License-Identifier: Apache-2.0
#include "client/c/guard.h"

#include <new>

#include "client/c/block.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::c {
namespace {

constexpr std::size_t kOptionsMax = 4096;
constexpr std::size_t kItemsMax = std::size_t{1} << 20;  // above any limit of the store

void fill(c10dd_error* error, Code code, const char* text, const std::vector<Missing>& missing) {
  if (error == nullptr) return;
  error->code = static_cast<c10dd_code>(code);
  Block block;
  char* const copied = block.text(text);
  error->missing = copy(block, missing);
  error->missing_count = missing.size();
  error->text = block.release(copied);
}

}  // namespace

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw InvalidArgument(format("{} is null", what));
}

void copy_options(const void* given, std::size_t known, void* options, const char* what) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < known || size > kOptionsMax) {
    throw InvalidArgument(
        format("the size field of {} is {}, but the struct has {} bytes: initialise the struct "
               "with its macro, for example C10DD_CALL_INIT",
               what, size, known));
  }
  const std::string_view rest(static_cast<const char*>(given) + known, size - known);
  if (rest.find_first_not_of('\0') != std::string_view::npos) {
    throw InvalidArgument(
        Code::unsupported,
        format("the struct of {} has {} bytes and sets fields that version {} of this library ({} "
               "bytes) does not have: update libc10dd.so.1",
               what, size, C10DD_VERSION, known));
  }
  std::memcpy(options, given, known);
}

std::string_view bytes_of(c10dd_view view, const char* what) {
  if (view.size != 0) require(view.data, what);
  return {static_cast<const char*>(view.data), view.size};
}

std::vector<std::string> strings_of(const c10dd_view* items, std::size_t count, const char* what) {
  if (count > kItemsMax) {
    throw InvalidArgument(Code::too_large,
                          format("too many items for {}: {}, limit {}", what, count, kItemsMax));
  }
  if (count != 0) require(items, what);
  std::vector<std::string> strings;
  strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) strings.emplace_back(bytes_of(items[i], what));
  return strings;
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

const c10dd_missing* copy(Block& block, const std::vector<Missing>& missing) {
  if (missing.empty()) return nullptr;
  c10dd_missing* const all = block.array<c10dd_missing>(missing.size());
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const Missing& m = missing[i];
    all[i] = {
        m.rank, block.text(m.host), block.text(m.cause), block.text(m.doing), m.silent_for.count(),
        m.pid};
  }
  return all;
}

Call::Call(const c10dd_call* call) : scope_(caller_) {
  const c10dd_call wanted = options_of<c10dd_call>(call, C10DD_CALL_INIT, "the call");
  if (wanted.timeout_ns < -1) {
    throw InvalidArgument(
        format("the time-out is {} ns: give 0 or more, or -1 for the default", wanted.timeout_ns));
  }
  if (wanted.timeout_ns >= 0) {
    timeout_ = std::min<Duration>(Duration(wanted.timeout_ns), limits::kTimeoutMax);
    // With 0 the daemon does not wait, but this process must wait for its reply.
    if (wanted.timeout_ns > 0) caller_.limit = timeout_;
  }
  if (wanted.go_on != nullptr) {
    caller_.go_on = [wanted] { return wanted.go_on(wanted.context) != 0; };
  }
}

bool clear(c10dd_error* error) noexcept {
  if (error == nullptr) return true;
  if (error->size < sizeof(c10dd_error)) return false;
  c10dd_error_clear(error);
  return true;
}

c10dd_code caught(c10dd_error* error) noexcept {
  Code code = Code::internal;
  try {
    try {
      throw;
    } catch (const TimedOut& e) {
      code = e.code();
      fill(error, code, e.what(), e.missing());
    } catch (const Aborted& e) {
      code = e.code();
      fill(error, code, e.what(), e.missing());
    } catch (const Unavailable& e) {
      code = e.code();
      fill(error, code, e.what(), e.missing());
    } catch (const Error& e) {
      code = e.code();
      fill(error, code, e.what(), {});
    } catch (const std::bad_alloc&) {
      fill(error, code, "this process is out of memory", {});
    } catch (const std::exception& e) {
      fill(error, code, e.what(), {});
    }
  } catch (...) {
    // There is no memory for the text: the code must do.
  }
  return static_cast<c10dd_code>(code);
}

extern "C" {

uint32_t c10dd_abi_version(void) { return C10DD_ABI_VERSION; }
const char* c10dd_version(void) { return C10DD_VERSION; }
const char* c10dd_code_name(c10dd_code code) {
  // The names are literals, so a zero follows them.
  const bool known = code >= 0 && static_cast<std::size_t>(code) < std::size(kCodes);
  return name_of(known ? static_cast<Code>(code) : Code::internal).data();
}
void c10dd_free(void* block) { free_block(block); }
void c10dd_error_clear(c10dd_error* error) {
  if (error == nullptr) return;
  free_block(const_cast<char*>(error->text));
  error->code = C10DD_OK;
  error->text = nullptr;
  error->missing = nullptr;
  error->missing_count = 0;
}
}

}  // namespace c10dd::c
