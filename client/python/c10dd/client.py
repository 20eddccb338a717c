# SPDX-License-Identifier: Apache-2.0
"""The session of this process in a job."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

from . import _library
from ._call import (
    U32, U64, WORLD_SIZE, Bytes, Path, Seconds, from_text, invoke, invoke_blocking, nanoseconds,
    number, path, take_list, text, view,
)
from ._handle import Owner
from ._library import library
from .membership import Membership, Shape, barrier_options, parts_of
from .store import Store


@dataclasses.dataclass(frozen=True)
class Launch:
    """The variables of the launcher of this process: c10drun, torchrun, Slurm, MPI or Kubernetes."""

    #: "torchrun" and so on; empty if no launcher gives a rank.
    source: str
    #: From C10DD_URL, or C10DD_ADDR and C10DD_JOB; None if neither is set.
    url: Optional[str]
    job: str
    run: str
    rank: Optional[int]
    world_size: Optional[int]
    local_rank: Optional[int]
    local_world_size: Optional[int]
    node_rank: Optional[int]
    #: For a log or an error text.
    summary: str


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """An address for unmodified PyTorch trainers, as MASTER_ADDR and MASTER_PORT."""

    host: str
    port: int
    ttl: float


@dataclasses.dataclass(frozen=True)
class Stats:
    """Totals of a client since it was created."""

    connects: int
    #: Calls that were sent again after a reconnect.
    reissued: int
    calls: int
    failures: int
    #: Sessions that have expired or were replaced.
    sessions_lost: int
    #: Seconds without a session.
    away: float


def _known(value: int) -> Optional[int]:
    return None if value < 0 else value


def read_launch() -> Launch:
    """Reads the variables of the launcher from the environment of this process."""
    pointer = ctypes.POINTER(_library.Launch)()
    invoke(library.c10dd_read_launch, pointer)
    try:
        launch = pointer.contents
        return Launch(from_text(launch.source), launch.url and from_text(launch.url),
                      from_text(launch.job), from_text(launch.run), _known(launch.rank),
                      _known(launch.world_size), _known(launch.local_rank),
                      _known(launch.local_world_size), _known(launch.node_rank),
                      from_text(launch.summary))
    finally:
        library.c10dd_free(pointer)


def connect(url: Optional[str] = None, *, rank: Optional[int] = None,
            world_size: Optional[int] = None, run: Optional[str] = None,
            host: Optional[str] = None, launcher: Optional[str] = None,
            timeout: Seconds = 300, connect_timeout: Seconds = 30,
            session_expiry: Optional[Seconds] = None, token: Optional[str] = None,
            token_file: Optional[Path] = None, ca_file: Optional[Path] = None,
            cert_file: Optional[Path] = None, key_file: Optional[Path] = None) -> Client:
    """Opens a session and returns its Client.

    `url` is c10dd://host:port/job, or c10dd://a:29500,b:29500/job with several daemons of a fleet.
    Without it, the URL comes from C10DD_URL, or from C10DD_ADDR and C10DD_JOB, and the rank and world
    size come from the variables of the launcher. The arguments override them.

    A `run` has its own keys, queues, barriers and groups. `timeout` limits each call without a
    time-out of its own; `connect_timeout` limits connect(). The daemon keeps the session, and makes
    each change exactly once, while this process is disconnected for less than `session_expiry`.

    A `token`, or a `token_file`, which is read again before the token expires, shows a daemon with --tls
    who this process is. `ca_file` has the CA certificates of the daemon, if the token does not say which it
    is; `cert_file` and `key_file` are a client certificate. Without all of them, the environment says it
    (C10DD_TOKEN_FILE and so on).

    Raises InvalidArgument for an invalid argument, PermissionDenied if the daemon refuses this process, and
    TimedOut if no daemon answers.
    """
    options = _library.ConnectOptions(
        ctypes.sizeof(_library.ConnectOptions),
        -1 if rank is None else number(rank, "rank", 0, WORLD_SIZE - 1),
        -1 if world_size is None else number(world_size, "world_size", 1, WORLD_SIZE),
        text(run, "run"), text(host, "host"), text(launcher, "launcher"),
        nanoseconds(timeout, "timeout", -1), nanoseconds(session_expiry, "session_expiry", 0),
        text(token, "token"), path(token_file, "token_file"), path(ca_file, "ca_file"),
        path(cert_file, "cert_file"), path(key_file, "key_file"))
    handle = ctypes.c_void_p()
    invoke_blocking(library.c10dd_connect, connect_timeout, (text(url, "the URL"), options), handle,
                    undo=lambda: Client._dispose(handle))
    return Client(handle)


class Client(Owner):
    """A session of this process in one job. Thread-safe. A context manager.

    It reconnects by itself and sends pending calls again: a restart of the daemon fails no call.
    In a forked process all calls raise Forked; connect again there.
    """

    _close_function = library.c10dd_client_close
    _kind = "client"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        super().__init__(handle)
        info = self._describe()
        self.job: str = info["job"]
        self.run: str = info["run"]
        #: Host name that was reported to the daemon.
        self.host: str = info["host"]
        self.rank: Optional[int] = _known(info["rank"])
        self.world_size: Optional[int] = _known(info["world_size"])

    def _describe(self) -> dict[str, Any]:
        pointer = ctypes.POINTER(_library.ClientInfo)()
        invoke(library.c10dd_client_describe, self._handle, pointer)
        try:
            values = {name: getattr(pointer.contents, name)
                      for name, *_ in _library.ClientInfo._fields_}
            return {name: from_text(value) if isinstance(value, bytes) else value
                    for name, value in values.items()}
        finally:
            library.c10dd_free(pointer)

    @property
    def store(self) -> Store:
        """The store of the job. It keeps the client alive."""
        return Store(self)

    @property
    def address(self) -> str:
        """The address, host:port, of the daemon that has this session, or of the daemon to try next."""
        return self._describe()["address"]

    def stats(self) -> Stats:
        """Returns totals since the client was created."""
        info = self._describe()
        return Stats(info["connects"], info["reissued"], info["calls"], info["failures"],
                     info["sessions_lost"], info["away_ns"] / 1e9)

    def barrier(self, name: Bytes, *, timeout: Optional[Seconds] = None,
                rank: Optional[int] = None, world_size: Optional[int] = None,
                generation: int = 0) -> None:
        """Waits until all ranks have arrived. If `rank` and `world_size` are None, uses those of connect().

        For one name and generation, the n-th call of each rank joins the n-th barrier. All ranks
        get the same outcome: if one times out, the barrier fails for all. Raises TimedOut, whose
        `missing` has the ranks that did not arrive.
        """
        options = barrier_options(rank, world_size, generation, Shape.ALL, 0)
        invoke_blocking(library.c10dd_barrier, timeout,
                        (self._handle, view(name, "the name"), options))

    def exchange(self, name: Bytes, parts: Any, *, shape: Shape = Shape.ALL, root: int = 0,
                 timeout: Optional[Seconds] = None, rank: Optional[int] = None,
                 world_size: Optional[int] = None, generation: int = 0,
                 awaits_earlier: bool = False) -> list[bytes]:
        """Exchanges data at a barrier. Gives parts to other ranks, and returns the parts for this rank.

        `parts` is one str or bytes, or a list of them; Shape says which parts each rank gives and gets.
        All parts of a rank together have at most 16 MiB. If processes of an earlier launch have met
        under this name and are still connected, it waits with `awaits_earlier` until they have closed
        their clients, and fails at once without it.
        """
        given, result = parts_of(parts), _library.List()
        invoke_blocking(library.c10dd_exchange, timeout,
                        (self._handle, view(name, "the name"), given, len(given),
                         barrier_options(rank, world_size, generation, shape, root,
                                         awaits_earlier)), result)
        return take_list(result)

    def rendezvous(self, group: str = "world", *, min: int = 1, max: Optional[int] = None,
                   last_call: Seconds = 3, quorum: bool = False, ttl: Optional[Seconds] = None,
                   grace: Optional[Seconds] = None, rank: Optional[int] = None,
                   spare: bool = False, local_rank: Optional[int] = None, device: str = "",
                   domain: str = "", labels: Optional[Mapping[str, str]] = None, step: int = 0,
                   timeout: Optional[Seconds] = None) -> Membership:
        """Joins a group and waits for a place in a generation of `min` to `max` members.

        A generation forms when `max` members have joined, or `last_call` after `min` have. The
        arguments up to `grace` must be equal in all members. `timeout` (None: 10 min) is then
        also that of Membership.next(). RendezvousOptions in <c10dd/membership.h> has the details.
        """
        named = [_library.Label(text(name, "a label"), text(value, "a label"))
                 for name, value in (labels or {}).items()]
        options = _library.RendezvousOptions(
            ctypes.sizeof(_library.RendezvousOptions), text(group, "group"),
            number(min, "min", 0, U32), number(min if max is None else max, "max", 0, U32),
            nanoseconds(last_call, "last_call", 0), bool(quorum), bool(spare),
            nanoseconds(ttl, "ttl", 0), nanoseconds(grace, "grace", 0),
            -1 if rank is None else number(rank, "rank", 0, U32),
            -1 if local_rank is None else number(local_rank, "local_rank", 0, 2**31 - 1),
            text(device, "device"), text(domain, "domain"),
            (_library.Label * len(named))(*named), len(named), number(step, "step", 0, U64))
        handle = ctypes.c_void_p()
        invoke_blocking(library.c10dd_rendezvous, timeout, (self._handle, options), handle,
                        undo=lambda: Membership._dispose(handle))
        return Membership(handle, self, group)

    def lease_endpoint(self, name: Bytes, *, run: Optional[str] = None,
                       ttl: Optional[Seconds] = None, world_size: int = 0,
                       timeout: Optional[Seconds] = None) -> Endpoint:
        """Leases a port of the daemon, on which unmodified PyTorch trainers find this job."""
        options = _library.EndpointOptions(
            ctypes.sizeof(_library.EndpointOptions), text(run, "run"), nanoseconds(ttl, "ttl", 0),
            number(world_size, "world_size", 0, U32))
        pointer = ctypes.POINTER(_library.Endpoint)()
        invoke_blocking(library.c10dd_lease_endpoint, timeout,
                        (self._handle, view(name, "the name"), options), pointer)
        try:
            leased = pointer.contents
            return Endpoint(from_text(leased.host), leased.port, leased.ttl_ns / 1e9)
        finally:
            library.c10dd_free(pointer)

    def open_proxy(self, *, run: Optional[str] = None, says_absences: bool = False) -> Proxy:
        """Opens a port on 127.0.0.1 for the TCPStore clients of this machine (see Proxy)."""
        options = _library.ProxyOptions(ctypes.sizeof(_library.ProxyOptions), text(run, "run"),
                                        bool(says_absences))
        handle = ctypes.c_void_p()
        invoke(library.c10dd_proxy_open, self._handle, options, handle)
        return Proxy(handle)


@dataclasses.dataclass(frozen=True)
class ProxyCounts:
    """Totals of a proxy, and the numbers of its present clients and requests."""

    clients: int
    accepted: int
    refused: int
    closed: int
    waits: int
    unanswered: int
    reissued: int


class Proxy(Owner):
    """A port on 127.0.0.1 to which PyTorch's TCPStore clients of this machine connect.

    Each gets a session of its own in one run of the job, and waits while the daemon is away. The
    proxy serves the user of this process and refuses all others. It does not need its client after
    it was opened.
    """

    _close_function = library.c10dd_proxy_close
    _kind = "proxy"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        super().__init__(handle)
        port = ctypes.c_uint16()
        invoke(library.c10dd_proxy_port, handle, port)
        self.port: int = port.value

    def wait_left(self, *, timeout: Optional[Seconds] = None) -> None:
        """Waits until clients have connected, and the last of them has gone.

        Raises TimedOut (`timeout` None: after 30 days), and Closed if the proxy is closed meanwhile.
        """
        invoke_blocking(library.c10dd_proxy_wait_left, timeout, (self._handle,))

    def counts(self) -> ProxyCounts:
        """Returns the totals and the present numbers of the proxy."""
        counts = _library.ProxyCounts()
        invoke(library.c10dd_proxy_count, self._handle, counts)
        return ProxyCounts(*(getattr(counts, name) for name, *_ in counts._fields_))


__all__ = ["Client", "Endpoint", "Launch", "Proxy", "ProxyCounts", "Stats",
           "connect", "read_launch"]
