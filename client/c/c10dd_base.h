// SPDX-License-Identifier: Apache-2.0
// Types that all functions of c10dd.h use: codes, values, errors and time-outs.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- versions and codes ----------------------------------------------------------------------

// The version of the interface. It changes when a program that was compiled with an older header
// cannot use the library any more.
#define C10DD_ABI_VERSION 1

uint32_t c10dd_abi_version(void);
// Returns the version of the library, for example "0.1.0".
const char* c10dd_version(void);

typedef int32_t c10dd_code;
enum {
  C10DD_OK = 0,
  C10DD_MALFORMED = 1,
  C10DD_UNKNOWN_OP = 2,
  C10DD_VERSION_UNSUPPORTED = 3,
  C10DD_TOO_LARGE = 4,
  C10DD_INVALID_ARGUMENT = 5,
  C10DD_NOT_FOUND = 6,
  C10DD_TIMED_OUT = 7,
  C10DD_QUOTA_EXCEEDED = 8,
  C10DD_WRONG_TYPE = 9,
  C10DD_OUT_OF_RANGE = 10,
  C10DD_SIZE_MISMATCH = 11,
  C10DD_RANK_TAKEN = 12,
  C10DD_SEQUENCE_REUSED = 13,
  C10DD_WINDOW_EXCEEDED = 14,
  C10DD_SESSION_UNKNOWN = 15,
  C10DD_SESSION_SUPERSEDED = 16,
  C10DD_STATE_ROLLED_BACK = 17,
  C10DD_STALE_GENERATION = 18,
  C10DD_OUTCOME_UNKNOWN = 19,
  C10DD_NOT_OWNER = 20,
  C10DD_UNAVAILABLE = 21,
  C10DD_ABORTED = 22,
  C10DD_PERMISSION_DENIED = 23,
  C10DD_UNSUPPORTED = 24,
  C10DD_CLOSED = 25,
  C10DD_INTERNAL = 26,
  C10DD_SESSION_EXPIRED = 27,
  C10DD_COMPACTED = 28,
  C10DD_DISK_FULL = 29,
  C10DD_SESSION_REPLACED = 30,
  C10DD_FORKED = 31,
  C10DD_UNAUTHENTICATED = 32,
  C10DD_WORK_FINISHED = 33
};
// Returns the name of a code, for example "timed_out"; of an unknown code, "internal".
const char* c10dd_code_name(c10dd_code code);

// ---- values ----------------------------------------------------------------------------------

// Bytes of the caller, which must stay until the call returns. `data` may be null if `size` is 0.
typedef struct c10dd_view {
  const void* data;
  size_t size;
} c10dd_view;

// Bytes in a block; a zero follows them, which `size` does not count.
typedef struct c10dd_bytes {
  char* data;  // free with c10dd_free()
  size_t size;
} c10dd_bytes;

typedef struct c10dd_list {
  const c10dd_view* items;  // free with c10dd_free(); null if there are none
  size_t count;
} c10dd_list;

// Frees a block. Does nothing if `block` is null.
void c10dd_free(void* block);

// A rank that did not arrive in time, or that a group has lost.
typedef struct c10dd_missing {
  uint32_t rank;
  const char* host;   // empty if the rank never connected in this launch
  const char* cause;  // a word of Missing::cause in <c10dd/errors.h>, for example "silent"
  const char* doing;  // where the rank waits, its phase and step, or how it ended; or empty
  int64_t silent_for_ns;
  uint64_t pid;  // 0 if the rank never connected
} c10dd_missing;

// The failure of a call. A call that gets the struct clears it first.
typedef struct c10dd_error {
  size_t size;
  c10dd_code code;
  const char* text;              // one sentence for users; null if the call has succeeded
  const c10dd_missing* missing;  // the missing ranks that the text names, if any
  size_t missing_count;
} c10dd_error;
#define C10DD_ERROR_INIT \
  { sizeof(c10dd_error), C10DD_OK, NULL, NULL, 0 }

// Frees what the struct points to.
void c10dd_error_clear(c10dd_error* error);

// The time-out of a call, and a function that can end it.
typedef struct c10dd_call {
  size_t size;
  // -1: the usual time-out of the call or of the client. 0: the call does not wait for a key, an
  // item or a change, only for the daemon's reply, as long as usual.
  int64_t timeout_ns;
  // Called on the caller's thread each 0.1 s while the call blocks. If it returns 0, the call ends
  // with C10DD_ABORTED; a change that it has requested may or may not be made. Null: not called.
  int (*go_on)(void* context);
  void* context;
} c10dd_call;
#define C10DD_CALL_INIT \
  { sizeof(c10dd_call), -1, NULL, NULL }

#ifdef __cplusplus
}
#endif
