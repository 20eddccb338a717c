# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libc10dd.so.1, and declares its functions (client/c/c10dd.h) for ctypes."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import (
    CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32,
    c_uint64, c_void_p,
)

ABI_VERSION = 1
GoOn = CFUNCTYPE(c_int, c_void_p)


class View(Structure):
    _fields_ = [("data", c_char_p), ("size", c_size_t)]


class Block(Structure):
    """A pointer to a block with bytes, and their number."""

    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class RawView(Structure):
    """A View in a block of the library; c_char_p would stop at a zero."""

    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class List(Structure):
    _fields_ = [("items", POINTER(RawView)), ("count", c_size_t)]


class Missing(Structure):
    _fields_ = [("rank", c_uint32), ("host", c_char_p), ("cause", c_char_p), ("doing", c_char_p),
                ("silent_for_ns", c_int64), ("pid", c_uint64)]


class Error(Structure):
    _fields_ = [("size", c_size_t), ("code", c_int32), ("text", c_char_p),
                ("missing", POINTER(Missing)), ("missing_count", c_size_t)]


class Call(Structure):
    _fields_ = [("size", c_size_t), ("timeout_ns", c_int64), ("go_on", GoOn), ("context", c_void_p)]


class ConnectOptions(Structure):
    _fields_ = [("size", c_size_t), ("rank", c_int64), ("world_size", c_int64), ("run", c_char_p),
                ("host", c_char_p), ("launcher", c_char_p), ("timeout_ns", c_int64),
                ("session_expiry_ns", c_int64), ("token", c_char_p), ("token_file", c_char_p),
                ("ca_file", c_char_p), ("cert_file", c_char_p), ("key_file", c_char_p)]


class ClientInfo(Structure):
    _fields_ = [("job", c_char_p), ("run", c_char_p), ("host", c_char_p), ("address", c_char_p),
                ("rank", c_int64), ("world_size", c_int64), ("connects", c_uint64),
                ("reissued", c_uint64), ("calls", c_uint64), ("failures", c_uint64),
                ("sessions_lost", c_uint64), ("away_ns", c_int64)]


class Launch(Structure):
    _fields_ = [("source", c_char_p), ("url", c_char_p), ("job", c_char_p), ("run", c_char_p),
                ("rank", c_int64), ("world_size", c_int64), ("local_rank", c_int64),
                ("local_world_size", c_int64), ("node_rank", c_int64), ("summary", c_char_p)]


class SetOptions(Structure):
    _fields_ = [("size", c_size_t), ("ttl_ns", c_int64), ("ephemeral", c_int)]


class Condition(Structure):
    _fields_ = [("kind", c_int32), ("key", View), ("value", View), ("revision", c_uint64)]


class Action(Structure):
    _fields_ = [("kind", c_int32), ("key", View), ("value", View), ("delta", c_int64),
                ("ttl_ns", c_int64), ("ephemeral", c_int)]


class TransactionResult(Structure):
    _fields_ = [("applied", c_int), ("failed", c_size_t), ("revision", c_uint64),
                ("sum_count", c_size_t), ("sums", c_int64 * 16)]


class Change(Structure):
    _fields_ = [("revision", c_uint64), ("removed", c_int), ("key", RawView), ("value", RawView)]


class Changes(Structure):
    _fields_ = [("items", POINTER(Change)), ("count", c_size_t), ("next", c_uint64)]


class BarrierOptions(Structure):
    _fields_ = [("size", c_size_t), ("rank", c_uint32), ("world_size", c_uint32),
                ("generation", c_uint64), ("shape", c_int32), ("root", c_uint32),
                ("awaits_earlier", c_int32)]


class Label(Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class RendezvousOptions(Structure):
    _fields_ = [("size", c_size_t), ("group", c_char_p), ("min", c_uint32), ("max", c_uint32),
                ("last_call_ns", c_int64), ("quorum", c_int), ("spare", c_int), ("ttl_ns", c_int64),
                ("grace_ns", c_int64), ("rank", c_int64), ("local_rank", c_int32),
                ("device", c_char_p), ("domain", c_char_p), ("labels", POINTER(Label)),
                ("label_count", c_size_t), ("step", c_uint64)]


class Generation(Structure):
    _fields_ = [("round", c_uint64), ("number", c_uint64), ("rank", c_uint32),
                ("world_size", c_uint32), ("digest", c_uint64), ("failures", c_uint32),
                ("reason", c_char_p)]


class Member(Structure):
    _fields_ = [("rank", c_uint32), ("host", c_char_p), ("pid", c_uint64), ("local_rank", c_int32),
                ("device", c_char_p), ("domain", c_char_p), ("labels", POINTER(Label)),
                ("label_count", c_size_t), ("step", c_uint64), ("previous_rank", c_int64)]


class Members(Structure):
    _fields_ = [("items", POINTER(Member)), ("count", c_size_t)]


class Ranks(Structure):
    _fields_ = [("items", POINTER(c_uint32)), ("count", c_size_t)]


class Notice(Structure):
    _fields_ = [("number", c_uint64), ("preempt", c_int), ("ranks", Ranks), ("left_ns", c_int64),
                ("reason", c_char_p)]


class GroupState(Structure):
    _fields_ = [("change", c_uint64), ("phase", c_int32), ("fenced", c_int), ("round", c_uint64),
                ("generation", c_uint64), ("reason", c_char_p), ("lost", Ranks),
                ("finished", Ranks), ("stalled", Ranks), ("missing", POINTER(Missing)),
                ("missing_count", c_size_t), ("waiting", c_uint32), ("notices", POINTER(Notice)),
                ("notice_count", c_size_t)]


class EndpointOptions(Structure):
    _fields_ = [("size", c_size_t), ("run", c_char_p), ("ttl_ns", c_int64),
                ("world_size", c_uint32)]


class Endpoint(Structure):
    _fields_ = [("host", c_char_p), ("port", c_uint16), ("ttl_ns", c_int64)]


class ProxyOptions(Structure):
    _fields_ = [("size", c_size_t), ("run", c_char_p), ("says_absences", c_int)]


class ProxyCounts(Structure):
    _fields_ = [("clients", c_uint64), ("accepted", c_uint64), ("refused", c_uint64),
                ("closed", c_uint64), ("waits", c_uint64), ("unanswered", c_uint64),
                ("reissued", c_uint64)]


_HANDLE = c_void_p
_CALL = POINTER(Call)
_VIEWS = POINTER(View)
_U64 = POINTER(c_uint64)
# The arguments of each function, without the last one, the error. tests/python compares the names
# with those that the library exports.
FUNCTIONS = {
    "connect": [c_char_p, POINTER(ConnectOptions), _CALL, POINTER(_HANDLE)],
    "client_close": [_HANDLE],
    "client_describe": [_HANDLE, POINTER(POINTER(ClientInfo))],
    "read_launch": [POINTER(POINTER(Launch))],
    "set": [_HANDLE, View, View, POINTER(SetOptions), _CALL, _U64],
    "get": [_HANDLE, View, _CALL, POINTER(Block), _U64],
    "wait": [_HANDLE, _VIEWS, c_size_t, _CALL],
    "check": [_HANDLE, _VIEWS, c_size_t, _CALL, POINTER(c_int)],
    "add": [_HANDLE, View, c_int64, _CALL, POINTER(c_int64)],
    "append": [_HANDLE, View, View, _CALL, _U64],
    "compare_set": [_HANDLE, View, View, View, _CALL, POINTER(Block)],
    "remove": [_HANDLE, View, _CALL, POINTER(c_int)],
    "remove_prefix": [_HANDLE, View, _CALL, _U64],
    "multi_get": [_HANDLE, _VIEWS, c_size_t, _CALL, POINTER(List)],
    "multi_set": [_HANDLE, _VIEWS, _VIEWS, c_size_t, _CALL],
    "list_keys": [_HANDLE, View, _CALL, POINTER(List), _U64],
    "count": [_HANDLE, View, _CALL, _U64],
    "queue_push": [_HANDLE, View, View, _CALL, _U64],
    "queue_pop": [_HANDLE, View, _CALL, POINTER(Block)],
    "queue_length": [_HANDLE, View, _CALL, _U64],
    "transact": [_HANDLE, POINTER(Condition), c_size_t, POINTER(Action), c_size_t, _CALL,
                 POINTER(TransactionResult)],
    "watch_open": [_HANDLE, View, c_int, c_uint64, _CALL, POINTER(_HANDLE)],
    "watch_next": [_HANDLE, _CALL, POINTER(Changes)],
    "watch_close": [_HANDLE],
    "barrier": [_HANDLE, View, POINTER(BarrierOptions), _CALL],
    "exchange": [_HANDLE, View, _VIEWS, c_size_t, POINTER(BarrierOptions), _CALL, POINTER(List)],
    "rendezvous": [_HANDLE, POINTER(RendezvousOptions), _CALL, POINTER(_HANDLE)],
    "membership_close": [_HANDLE],
    "membership_generation": [_HANDLE, POINTER(POINTER(Generation))],
    "membership_next": [_HANDLE, c_uint64, _CALL, POINTER(POINTER(Generation))],
    "membership_members": [_HANDLE, _CALL, POINTER(Members)],
    "membership_state": [_HANDLE, c_uint64, _CALL, POINTER(POINTER(GroupState))],
    "membership_leave": [_HANDLE, c_char_p, _CALL],
    "membership_finish": [_HANDLE, c_char_p, _CALL],
    "membership_fail": [_HANDLE, c_char_p, c_uint64, _CALL],
    "membership_progress": [_HANDLE, c_char_p, c_uint64, c_int64],
    "membership_notify": [_HANDLE, POINTER(Notice), c_char_p, _CALL, _U64],
    "membership_acknowledge": [_HANDLE, c_uint64, _CALL],
    "membership_barrier": [_HANDLE, View, Ranks, _CALL],
    "membership_exchange": [_HANDLE, View, _VIEWS, c_size_t, Ranks, POINTER(BarrierOptions), _CALL,
                            POINTER(List)],
    "lease_endpoint": [_HANDLE, View, POINTER(EndpointOptions), _CALL, POINTER(POINTER(Endpoint))],
    "proxy_open": [_HANDLE, POINTER(ProxyOptions), POINTER(_HANDLE)],
    "proxy_port": [_HANDLE, POINTER(c_uint16)],
    "proxy_count": [_HANDLE, POINTER(ProxyCounts)],
    "proxy_wait_left": [_HANDLE, _CALL],
    "proxy_close": [_HANDLE],
}
# Functions without an error.
PLAIN_FUNCTIONS = {
    "abi_version": ([], c_uint32),
    "version": ([], c_char_p),
    "code_name": ([c_int32], c_char_p),
    "free": ([c_void_p], None),
    "error_clear": ([POINTER(Error)], None),
}


def _candidates() -> list[str]:
    name = "libc10dd.so.1"
    if chosen := os.environ.get("C10DD_LIBRARY"):
        return [chosen]
    # The wheel has it in c10dd/lib, an installation in lib, above lib/python3/dist-packages/c10dd.
    folder = pathlib.Path(__file__).resolve().parent
    found = [folder / "lib" / name, folder.parents[2] / name]
    return [str(path) for path in found if path.exists()] + [name]


def _load() -> ctypes.CDLL:
    causes = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            causes.append(str(error))
            continue
        version = library.c10dd_abi_version()
        if version != ABI_VERSION:
            raise ImportError(f"{path} has version {version} of the C interface, but this package "
                              f"needs version {ABI_VERSION}: install both from one release")
        return library
    raise ImportError("cannot load libc10dd.so.1: " + "; ".join(causes)
                      + "; set C10DD_LIBRARY to its path")


library = _load()
for _name, _arguments in FUNCTIONS.items():
    _function = getattr(library, "c10dd_" + _name)
    _function.argtypes = [*_arguments, POINTER(Error)]
    _function.restype = c_int32
for _name, (_arguments, _result) in PLAIN_FUNCTIONS.items():
    _function = getattr(library, "c10dd_" + _name)
    _function.argtypes = _arguments
    _function.restype = _result
