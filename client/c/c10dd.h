// SPDX-License-Identifier: Apache-2.0
// The C interface of the SDK, in C99, for languages other than C++. A program links libc10dd.so.1.
//
// A function that can fail returns C10DD_OK or the code of its failure, and fills a c10dd_error
// that the caller owns; the pointer to it may be null. A failed call sets no other output. All
// functions are thread-safe. Strings are UTF-8. Names, keys and values are bytes, and may contain
// zeros.
//
// A handle (c10dd_client and so on) is not an address. A call with a handle that was closed returns
// C10DD_CLOSED. In a process that was forked after the handle was made, it returns C10DD_FORKED. A
// call with a null handle, or a handle of another type, returns C10DD_INVALID_ARGUMENT.
//
// A struct that the caller fills begins with its size, so that later versions can add fields.
// Initialise it with the macro of its name, for example a c10dd_call with C10DD_CALL_INIT. A null
// pointer to options means the values of this macro.
//
// A pointer that a function returns in an output points to one block, which c10dd_free() frees with
// all that it points to.
#pragma once

#include <c10dd_base.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- client ----------------------------------------------------------------------------------

// A session of this process in one job. It reconnects by itself and sends pending calls again.
typedef struct c10dd_client c10dd_client;

typedef struct c10dd_connect_options {
  size_t size;
  int64_t rank;               // -1: not known
  int64_t world_size;         // -1: not known
  const char* run;            // name of this run of the job; null or empty: none
  const char* host;           // host name to report; null: the machine's
  const char* launcher;       // where the rank comes from, for error texts; null: not known
  int64_t timeout_ns;         // usual time-out of the client's calls; -1: 300 s
  int64_t session_expiry_ns;  // 0: the daemon's default
  // How the client shows who it is (docs/security.md). If all are null, the environment says it.
  // The files are read again while the client runs.
  const char* token;       // a JSON Web Token
  const char* token_file;  // path of a file with it; not with `token`
  const char* ca_file;     // CA certificates of the daemon (PEM)
  const char* cert_file;   // the client's certificate (PEM); needs `key_file`
  const char* key_file;    // its private key (PEM)
} c10dd_connect_options;
#define C10DD_CONNECT_OPTIONS_INIT \
  { sizeof(c10dd_connect_options), -1, -1, NULL, NULL, NULL, -1, 0, NULL, NULL, NULL, NULL, NULL }

// Opens a session. `url` is c10dd://host:port/job. If it is null, the environment gives the URL and
// the options (Client::from_environment() in <c10dd/client.h>), except those that the caller sets.
// Blocks up to call->timeout_ns or, if that is -1, up to options->timeout_ns.
c10dd_code c10dd_connect(const char* url, const c10dd_connect_options* options,
                         const c10dd_call* call, c10dd_client** client, c10dd_error* error);

// Ends the session and the handle. Calls of other threads end with C10DD_CLOSED. Blocks up to 2 s.
c10dd_code c10dd_client_close(c10dd_client* client, c10dd_error* error);

typedef struct c10dd_client_info {
  const char* job;
  const char* run;
  const char* host;
  const char* address;  // of the daemon, host:port
  int64_t rank;         // -1: not known
  int64_t world_size;   // -1: not known
  uint64_t connects;
  uint64_t reissued;  // calls that were sent again after a reconnect
  uint64_t calls;
  uint64_t failures;
  uint64_t sessions_lost;
  int64_t away_ns;  // time without a session
} c10dd_client_info;
c10dd_code c10dd_client_describe(c10dd_client* client, c10dd_client_info** info,
                                 c10dd_error* error);

// The variables that the launcher of this process (c10drun, torchrun, Slurm, MPI, Kubernetes) set.
typedef struct c10dd_launch {
  const char* source;  // "torchrun" and so on; empty if no launcher gives a rank
  const char* url;     // from C10DD_URL, or C10DD_ADDR and C10DD_JOB; null if neither is set
  const char* job;
  const char* run;
  int64_t rank;  // this and the next four: -1 if not known
  int64_t world_size;
  int64_t local_rank;
  int64_t local_world_size;
  int64_t node_rank;
  const char* summary;  // for a log or an error text
} c10dd_launch;
c10dd_code c10dd_read_launch(c10dd_launch** launch, c10dd_error* error);

// ---- store: as JobStore in <c10dd/job_store.h> -----------------------------------------------

typedef struct c10dd_set_options {
  size_t size;
  int64_t ttl_ns;  // 0: the key stays until it is removed
  int ephemeral;   // not 0: the daemon removes the key when the client is closed or lost
} c10dd_set_options;
#define C10DD_SET_OPTIONS_INIT \
  { sizeof(c10dd_set_options), 0, 0 }

// Sets a key. `revision` may be null.
c10dd_code c10dd_set(c10dd_client* client, c10dd_view key, c10dd_view value,
                     const c10dd_set_options* options, const c10dd_call* call, uint64_t* revision,
                     c10dd_error* error);
// Returns the value of a key. Waits for the key up to the time-out; with 0, returns C10DD_NOT_FOUND
// if the key does not exist. `revision` may be null.
c10dd_code c10dd_get(c10dd_client* client, c10dd_view key, const c10dd_call* call,
                     c10dd_bytes* value, uint64_t* revision, c10dd_error* error);
// Waits until all keys exist.
c10dd_code c10dd_wait(c10dd_client* client, const c10dd_view* keys, size_t count,
                      const c10dd_call* call, c10dd_error* error);
// Sets `all` to 1 if all keys exist now, otherwise to 0.
c10dd_code c10dd_check(c10dd_client* client, const c10dd_view* keys, size_t count,
                       const c10dd_call* call, int* all, c10dd_error* error);
// Adds to a counter, exactly once.
c10dd_code c10dd_add(c10dd_client* client, c10dd_view key, int64_t delta, const c10dd_call* call,
                     int64_t* sum, c10dd_error* error);
// Adds bytes to the end of a value, exactly once, and returns its new size.
c10dd_code c10dd_append(c10dd_client* client, c10dd_view key, c10dd_view value,
                        const c10dd_call* call, uint64_t* size, c10dd_error* error);
// Stores `desired` if the value is `expected`. Returns the value after the call.
c10dd_code c10dd_compare_set(c10dd_client* client, c10dd_view key, c10dd_view expected,
                             c10dd_view desired, const c10dd_call* call, c10dd_bytes* value,
                             c10dd_error* error);
c10dd_code c10dd_remove(c10dd_client* client, c10dd_view key, const c10dd_call* call, int* existed,
                        c10dd_error* error);
c10dd_code c10dd_remove_prefix(c10dd_client* client, c10dd_view prefix, const c10dd_call* call,
                               uint64_t* removed, c10dd_error* error);
// Waits for missing keys as c10dd_get() does.
c10dd_code c10dd_multi_get(c10dd_client* client, const c10dd_view* keys, size_t count,
                           const c10dd_call* call, c10dd_list* values, c10dd_error* error);
c10dd_code c10dd_multi_set(c10dd_client* client, const c10dd_view* keys, const c10dd_view* values,
                           size_t count, const c10dd_call* call, c10dd_error* error);
// Returns all keys with a prefix. A watch from `revision` + 1 misses no change. `revision` may be
// null.
c10dd_code c10dd_list_keys(c10dd_client* client, c10dd_view prefix, const c10dd_call* call,
                           c10dd_list* keys, uint64_t* revision, c10dd_error* error);
c10dd_code c10dd_count(c10dd_client* client, c10dd_view prefix, const c10dd_call* call,
                       uint64_t* count, c10dd_error* error);
c10dd_code c10dd_queue_push(c10dd_client* client, c10dd_view queue, c10dd_view item,
                            const c10dd_call* call, uint64_t* length, c10dd_error* error);
// Waits for an item up to the time-out; with 0, returns C10DD_NOT_FOUND if there is none.
c10dd_code c10dd_queue_pop(c10dd_client* client, c10dd_view queue, const c10dd_call* call,
                           c10dd_bytes* item, c10dd_error* error);
c10dd_code c10dd_queue_length(c10dd_client* client, c10dd_view queue, const c10dd_call* call,
                              uint64_t* length, c10dd_error* error);

enum c10dd_condition_kind {
  C10DD_IF_EXISTS = 0,
  C10DD_IF_ABSENT = 1,
  C10DD_IF_VALUE = 2,
  C10DD_IF_REVISION = 3
};
typedef struct c10dd_condition {
  int32_t kind;
  c10dd_view key;
  c10dd_view value;   // of C10DD_IF_VALUE
  uint64_t revision;  // of C10DD_IF_REVISION; 0: the key is absent
} c10dd_condition;

enum c10dd_action_kind {
  C10DD_DO_SET = 0,
  C10DD_DO_REMOVE = 1,
  C10DD_DO_ADD = 2,
  C10DD_DO_APPEND = 3,
  C10DD_DO_PUSH = 4
};
typedef struct c10dd_action {
  int32_t kind;
  c10dd_view key;
  c10dd_view value;  // of C10DD_DO_SET, _APPEND and _PUSH
  int64_t delta;     // of C10DD_DO_ADD
  int64_t ttl_ns;    // this and the next: of C10DD_DO_SET
  int ephemeral;
} c10dd_action;

#define C10DD_TRANSACTION_SUMS 16
typedef struct c10dd_transaction_result {
  int applied;        // 0: a condition does not hold, and nothing was changed
  size_t failed;      // index of the first condition that does not hold
  uint64_t revision;  // of the change; if not applied, the newest
  size_t sum_count;
  int64_t sums[C10DD_TRANSACTION_SUMS];  // of the actions C10DD_DO_ADD, in their order
} c10dd_transaction_result;
// If all conditions hold, applies all actions in order as one change, exactly once.
c10dd_code c10dd_transact(c10dd_client* client, const c10dd_condition* conditions,
                          size_t condition_count, const c10dd_action* actions, size_t action_count,
                          const c10dd_call* call, c10dd_transaction_result* result,
                          c10dd_error* error);

typedef struct c10dd_watch c10dd_watch;
typedef struct c10dd_change {
  uint64_t revision;
  int removed;
  c10dd_view key;
  c10dd_view value;  // empty if removed
} c10dd_change;
typedef struct c10dd_changes {
  const c10dd_change* items;  // free with c10dd_free(); null if there are none
  size_t count;
  uint64_t next;  // a watch from this revision misses no change
} c10dd_changes;
// Watches the key or, if `is_prefix` is not 0, all keys with this prefix. The watch begins at the
// revision `from`, or with the next change if `from` is 0.
c10dd_code c10dd_watch_open(c10dd_client* client, c10dd_view key, int is_prefix, uint64_t from,
                            const c10dd_call* call, c10dd_watch** watch, c10dd_error* error);
// Returns the changes since the last call. Waits up to the time-out for a change, then returns an
// empty list. Fails with C10DD_INVALID_ARGUMENT while another thread is in this call.
c10dd_code c10dd_watch_next(c10dd_watch* watch, const c10dd_call* call, c10dd_changes* changes,
                            c10dd_error* error);
// Ends the watch and the handle. A call of another thread ends with C10DD_ABORTED.
c10dd_code c10dd_watch_close(c10dd_watch* watch, c10dd_error* error);

// ---- barriers and exchanges: as in <c10dd/client.h> ------------------------------------------

enum c10dd_shape { C10DD_ALL = 0, C10DD_TO_ROOT = 1, C10DD_FROM_ROOT = 2, C10DD_TRANSPOSE = 3 };
typedef struct c10dd_barrier_options {
  size_t size;
  uint32_t rank;
  uint32_t world_size;  // 0: rank and world size of the client
  uint64_t generation;
  int32_t shape;  // this and the rest: of an exchange
  uint32_t root;
  int32_t awaits_earlier;  // not 0: waits for the ranks of an earlier launch to leave
} c10dd_barrier_options;
#define C10DD_BARRIER_OPTIONS_INIT \
  { sizeof(c10dd_barrier_options), 0, 0, 0, C10DD_ALL, 0, 0 }

c10dd_code c10dd_barrier(c10dd_client* client, c10dd_view name,
                         const c10dd_barrier_options* options, const c10dd_call* call,
                         c10dd_error* error);
// Gives `count` parts and returns the parts for this rank.
c10dd_code c10dd_exchange(c10dd_client* client, c10dd_view name, const c10dd_view* parts,
                          size_t count, const c10dd_barrier_options* options,
                          const c10dd_call* call, c10dd_list* received, c10dd_error* error);

// ---- groups: as in <c10dd/membership.h> ------------------------------------------------------

typedef struct c10dd_membership c10dd_membership;

typedef struct c10dd_label {
  const char* name;
  const char* value;
} c10dd_label;

typedef struct c10dd_rendezvous_options {
  size_t size;
  const char* group;  // null: "world"
  uint32_t min;
  uint32_t max;
  int64_t last_call_ns;
  int quorum;
  int spare;
  int64_t ttl_ns;
  int64_t grace_ns;
  int64_t rank;
  int32_t local_rank;
  const char* device;
  const char* domain;
  const c10dd_label* labels;
  size_t label_count;
  uint64_t step;
} c10dd_rendezvous_options;
#define C10DD_RENDEZVOUS_OPTIONS_INIT                                                         \
  {                                                                                           \
    sizeof(c10dd_rendezvous_options), NULL, 1, 1, 3000000000, 0, 0, 0, 0, -1, -1, NULL, NULL, \
        NULL, 0, 0                                                                            \
  }

// Joins a group and waits for a place in a generation. The usual time-out is 10 min. The time-out
// of this call is also the usual one of c10dd_membership_next().
c10dd_code c10dd_rendezvous(c10dd_client* client, const c10dd_rendezvous_options* options,
                            const c10dd_call* call, c10dd_membership** membership,
                            c10dd_error* error);
// Leaves the group unless the process has left or finished, and ends the handle.
c10dd_code c10dd_membership_close(c10dd_membership* membership, c10dd_error* error);

typedef struct c10dd_generation {
  uint64_t round;
  uint64_t number;
  uint32_t rank;
  uint32_t world_size;
  uint64_t digest;
  uint32_t failures;
  const char* reason;
} c10dd_generation;
c10dd_code c10dd_membership_generation(c10dd_membership* membership, c10dd_generation** generation,
                                       c10dd_error* error);
// Joins the next generation and waits for a place in it.
c10dd_code c10dd_membership_next(c10dd_membership* membership, uint64_t step,
                                 const c10dd_call* call, c10dd_generation** generation,
                                 c10dd_error* error);

typedef struct c10dd_member {
  uint32_t rank;
  const char* host;
  uint64_t pid;
  int32_t local_rank;
  const char* device;
  const char* domain;
  const c10dd_label* labels;
  size_t label_count;
  uint64_t step;
  int64_t previous_rank;
} c10dd_member;
typedef struct c10dd_members {
  const c10dd_member* items;  // free with c10dd_free()
  size_t count;
} c10dd_members;
c10dd_code c10dd_membership_members(c10dd_membership* membership, const c10dd_call* call,
                                    c10dd_members* members, c10dd_error* error);

typedef struct c10dd_ranks {
  const uint32_t* items;
  size_t count;
} c10dd_ranks;
typedef struct c10dd_notice {
  uint64_t number;
  int preempt;
  c10dd_ranks ranks;
  int64_t left_ns;  // 0: no deadline
  const char* reason;
} c10dd_notice;
enum c10dd_phase { C10DD_FORMING = 0, C10DD_FORMED = 1, C10DD_BROKEN = 2, C10DD_FINISHED = 3 };
typedef struct c10dd_group_state {
  uint64_t change;  // counts the changes of the state that this process has seen
  int32_t phase;
  int fenced;
  uint64_t round;
  uint64_t generation;
  const char* reason;
  c10dd_ranks lost;
  c10dd_ranks finished;
  c10dd_ranks stalled;
  const c10dd_missing* missing;
  size_t missing_count;
  uint32_t waiting;
  const c10dd_notice* notices;
  size_t notice_count;
} c10dd_group_state;
// Waits until the `change` of the status is above `seen`, and returns the status. Returns the
// present status after the time-out, and at once if `seen` is 0.
c10dd_code c10dd_membership_state(c10dd_membership* membership, uint64_t seen,
                                  const c10dd_call* call, c10dd_group_state** state,
                                  c10dd_error* error);

c10dd_code c10dd_membership_leave(c10dd_membership* membership, const char* detail,
                                  const c10dd_call* call, c10dd_error* error);
c10dd_code c10dd_membership_finish(c10dd_membership* membership, const char* detail,
                                   const c10dd_call* call, c10dd_error* error);
// Leaves the group and ends the generation as failed. `generation` is the number of the failed
// generation; 0 means the newest.
c10dd_code c10dd_membership_fail(c10dd_membership* membership, const char* detail,
                                 uint64_t generation, const c10dd_call* call, c10dd_error* error);
// Reports what this process does. Does not block. If `limit_ns` is not 0, the process promises the
// next report within this time.
c10dd_code c10dd_membership_progress(c10dd_membership* membership, const char* phase, uint64_t step,
                                     int64_t limit_ns, c10dd_error* error);
// Asks the ranks, and all ranks on `host` unless it is null, to leave within `left_ns`. The field
// `number` of the notice is ignored.
c10dd_code c10dd_membership_notify(c10dd_membership* membership, const c10dd_notice* notice,
                                   const char* host, const c10dd_call* call, uint64_t* number,
                                   c10dd_error* error);
c10dd_code c10dd_membership_acknowledge(c10dd_membership* membership, uint64_t notice,
                                        const c10dd_call* call, c10dd_error* error);
// Barrier and exchange within the generation. `participants` lists the ranks that take part, in
// ascending order; an empty list means all ranks. Only `shape` and `root` of the options are used.
c10dd_code c10dd_membership_barrier(c10dd_membership* membership, c10dd_view name,
                                    c10dd_ranks participants, const c10dd_call* call,
                                    c10dd_error* error);
c10dd_code c10dd_membership_exchange(c10dd_membership* membership, c10dd_view name,
                                     const c10dd_view* parts, size_t count,
                                     c10dd_ranks participants, const c10dd_barrier_options* options,
                                     const c10dd_call* call, c10dd_list* received,
                                     c10dd_error* error);

// ---- PyTorch: endpoints and the node proxy ---------------------------------------------------

typedef struct c10dd_endpoint_options {
  size_t size;
  const char* run;
  int64_t ttl_ns;
  uint32_t world_size;
} c10dd_endpoint_options;
#define C10DD_ENDPOINT_OPTIONS_INIT \
  { sizeof(c10dd_endpoint_options), NULL, 0, 0 }
typedef struct c10dd_endpoint {
  const char* host;
  uint16_t port;
  int64_t ttl_ns;
} c10dd_endpoint;
// Leases a port of the daemon for unmodified PyTorch trainers.
c10dd_code c10dd_lease_endpoint(c10dd_client* client, c10dd_view name,
                                const c10dd_endpoint_options* options, const c10dd_call* call,
                                c10dd_endpoint** endpoint, c10dd_error* error);

// A port on 127.0.0.1 to which PyTorch's TCPStore clients of this machine connect. Each gets a
// session of its own in one run of the client's job, and waits while the daemon is away. The proxy
// goes on after the c10dd_client was closed. It serves the user of this process and refuses all
// others. When it must close or refuse a connection, it writes the reason to stderr, unless the
// environment has C10DD_LOG=off.
typedef struct c10dd_proxy c10dd_proxy;
typedef struct c10dd_proxy_options {
  size_t size;
  const char* run;    // null: the run of the client
  int says_absences;  // not 0: writes to stderr when the daemon is away, for a process without a
                      // client
} c10dd_proxy_options;
#define C10DD_PROXY_OPTIONS_INIT \
  { sizeof(c10dd_proxy_options), NULL, 0 }
typedef struct c10dd_proxy_counts {
  uint64_t clients;     // connected now
  uint64_t accepted;    // since the start
  uint64_t refused;     // of other users, or because too many were connected
  uint64_t closed;      // by the proxy: could not go on, or silent while others waited
  uint64_t waits;       // blocked now
  uint64_t unanswered;  // requests without a reply now, with the waits
  uint64_t reissued;    // requests that were sent again after a connection was lost
} c10dd_proxy_counts;
c10dd_code c10dd_proxy_open(c10dd_client* client, const c10dd_proxy_options* options,
                            c10dd_proxy** proxy, c10dd_error* error);
c10dd_code c10dd_proxy_port(c10dd_proxy* proxy, uint16_t* port, c10dd_error* error);
c10dd_code c10dd_proxy_count(c10dd_proxy* proxy, c10dd_proxy_counts* counts, c10dd_error* error);
// Blocks until clients have connected and none of them is connected any more. Fails with
// C10DD_TIMED_OUT, and with C10DD_CLOSED if the proxy is closed.
c10dd_code c10dd_proxy_wait_left(c10dd_proxy* proxy, const c10dd_call* call, c10dd_error* error);
// Closes the connections of its clients. Blocks up to 1 s.
c10dd_code c10dd_proxy_close(c10dd_proxy* proxy, c10dd_error* error);

#ifdef __cplusplus
}
#endif
