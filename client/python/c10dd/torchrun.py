# SPDX-License-Identifier: Apache-2.0
"""torchrun --rdzv-backend=c10dd --rdzv-endpoint=HOST:PORT --rdzv-id=JOB

The agents are members of the group "torchrun" of the job that --rdzv-id names. Each round has a new
run of the job, and a proxy in each agent, which serves PyTorch's store to the agent and its workers
and waits while the daemon is away. When a node is lost, the other agents restart their workers at
once, and torchrun counts no restart.

--rdzv-conf takes join_timeout (600 s, or torchrun's `timeout`), last_call_timeout (3 s),
connect_timeout (30 s) and ttl (15 s, how long an agent may be silent), in seconds, and store (proxy,
or rank0 for PyTorch's own store on node 0).
"""

from __future__ import annotations

import datetime
import os
import socket
import sys
import time
import urllib.parse
from typing import Any, Optional

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import (
    RendezvousClosedError, RendezvousConnectionError, RendezvousHandler, RendezvousInfo,
    RendezvousParameters, RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError,
)

from ._nearest import nearest
from .client import Client, Proxy, connect
from .errors import Aborted, Closed, Error, InvalidArgument, TimedOut, WorkFinished
from .membership import Generation, Membership, Phase, Shape
from .torch import tcp_store

GROUP = "torchrun"
# An agent whose link is cut for less than `ttl` stays a member, as with torchrun's own backend c10d
# (3 heartbeats of 5 s). One whose connection is closed is lost after 0.25 s.
_SECONDS = {"join_timeout": 600.0, "last_call_timeout": 3.0, "connect_timeout": 30.0, "ttl": 15.0}
_STORES = ("proxy", "rank0")
_KEYS = (*_SECONDS, "store")


class _Options:
    """The values of --rdzv-conf."""

    def __init__(self, config: dict[str, Any]) -> None:
        for key in config:
            if key not in _KEYS and key != "timeout":  # which torchrun adds
                raise InvalidArgument(f'--rdzv-conf: unknown key "{key}"{nearest(key, _KEYS)}; the '
                                      "keys are " + ", ".join(_KEYS))
        usual = dict(_SECONDS)
        if "timeout" in config:
            usual["join_timeout"] = self._seconds(config, "timeout", 0)
        self.join = self._seconds(config, "join_timeout", usual["join_timeout"])
        self.last_call = self._seconds(config, "last_call_timeout", usual["last_call_timeout"])
        self.connect = self._seconds(config, "connect_timeout", usual["connect_timeout"])
        self.ttl = self._seconds(config, "ttl", usual["ttl"])
        self.store = config.get("store", "proxy")
        if self.store not in _STORES:
            raise InvalidArgument(f"--rdzv-conf: store={self.store}: give proxy or rank0")

    @staticmethod
    def _seconds(config: dict[str, Any], key: str, usual: float) -> float:
        value = config.get(key, usual)
        try:
            seconds = float(value)
        except (TypeError, ValueError):
            seconds = -1
        if not 0 <= seconds < float("inf"):
            raise InvalidArgument(f"--rdzv-conf: {key}={value}: give seconds, 0 or more")
        return seconds


def _url(parameters: RendezvousParameters) -> str:
    """Returns the URL of the job."""
    endpoint = parameters.endpoint or os.environ.get("C10DD_ADDR", "")
    if not endpoint:
        raise InvalidArgument("the address of the daemon is missing: give --rdzv-endpoint=HOST:PORT, or "
                              "set C10DD_ADDR")
    job = parameters.run_id
    if job in ("", "none"):  # torchrun's default
        if parameters.max_nodes > 1:
            raise InvalidArgument(f"--rdzv-id is missing, and up to {parameters.max_nodes} nodes "
                                  "can join: give all of them the same --rdzv-id")
        job = f"torchrun-{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"
    return f"c10dd://{endpoint}/{urllib.parse.quote(job, safe='')}"


class C10ddRendezvousHandler(RendezvousHandler):
    """One agent of torchrun. Used by one thread."""

    def __init__(self, parameters: RendezvousParameters) -> None:
        self._parameters = parameters
        self._options = _Options(parameters.config)
        self._url = _url(parameters)
        self._client: Optional[Client] = None
        self._membership: Optional[Membership] = None
        self._generation: Optional[Generation] = None
        self._proxy: Optional[Proxy] = None
        self._promised: Optional[socket.socket] = None  # holds the port of rank 0's store
        self._closed = False

    def get_backend(self) -> str:
        return "c10dd"

    @property
    def use_agent_store(self) -> bool:
        return self._options.store == "proxy"

    def get_run_id(self) -> str:
        return self._parameters.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Joins the next round. The workers of the previous round must have ended."""
        if self._closed:
            raise RendezvousClosedError("this agent has shut down its rendezvous")
        try:
            return self._next_round(time.monotonic() + self._options.join)
        except TimedOut as error:
            raise RendezvousTimeoutError(f"{error} (join_timeout is {self._options.join:g} s)") from error
        except Closed as error:
            raise RendezvousClosedError(str(error)) from error
        except WorkFinished as error:  # a spare; torchrun has no result for an agent without workers
            print(f"c10dd: {error}; this node ends", file=sys.stderr, flush=True)
            self._membership = None
            raise SystemExit(0) from error
        except Error as error:
            raise RendezvousStateError(str(error)) from error
        except RuntimeError as error:  # of PyTorch's TCPStore
            raise RendezvousConnectionError(str(error)) from error

    def _next_round(self, end: float) -> RendezvousInfo:
        while True:
            generation = self._join(end)
            run = f"torchrun.{generation.round}.{os.urandom(8).hex()}"
            try:
                assert self._membership is not None
                runs = self._membership.exchange(
                    "run", [run] if generation.rank == 0 else [], shape=Shape.FROM_ROOT,
                    timeout=max(end - time.monotonic(), 0.1))
            except Aborted:  # an agent was lost meanwhile, so there will be another generation
                continue
            self._generation = generation
            return self._open(generation, runs[0].decode())

    def _join(self, end: float) -> Generation:
        if self._client is None:
            try:
                self._client = connect(self._url, host=self._parameters.local_addr or None, run="",
                                       connect_timeout=self._options.connect)
            except TimedOut as error:
                raise RendezvousConnectionError(str(error)) from error
        left = max(end - time.monotonic(), 0.1)
        if self._membership is not None:
            return self._membership.next(timeout=left)
        self._membership = self._client.rendezvous(
            GROUP, min=self._parameters.min_nodes, max=self._parameters.max_nodes,
            last_call=self._options.last_call, ttl=self._options.ttl, timeout=left)
        return self._membership.generation()

    def _open(self, generation: Generation, run: str) -> RendezvousInfo:
        """Opens the store of a round, and closes the store of the round before."""
        assert self._client is not None
        if self._proxy is not None:
            self._proxy.close()
        self._proxy = self._client.open_proxy(run=run)
        store = tcp_store(self._proxy, generation.world_size,
                          datetime.timedelta(seconds=self._options.join))
        if self._options.store == "rank0":
            info = RendezvousStoreInfo(*self._place_of_rank0(generation.rank, store))
        else:
            info = RendezvousStoreInfo("127.0.0.1", self._proxy.port)
        return RendezvousInfo(dist.PrefixStore("torchrun", store), generation.rank,
                              generation.world_size, info)

    def _place_of_rank0(self, rank: int, store: Any) -> tuple[str, int]:
        """Returns the address and port at which rank 0 opens PyTorch's own store. Its node promises them."""
        if rank == 0:
            if self._promised is not None:
                self._promised.close()
            self._promised = _hold_port()
            address = self._parameters.local_addr or socket.getfqdn()
            store.set("place of rank 0", f"{address} {self._promised.getsockname()[1]}")
        address, port = store.get("place of rank 0").decode().rsplit(" ", 1)
        return address, int(port)

    def num_nodes_waiting(self) -> int:
        """Returns a positive number if the agent must restart its workers in a new round.

        Asks nobody: the daemon reports changes. While it is away, the workers go on.
        """
        if self._closed or self._membership is None or self._generation is None:
            return 0
        state = self._membership.state()
        ended = (state.generation != self._generation.number
                 or state.phase in (Phase.BROKEN, Phase.FORMING))
        return max(state.waiting, 1) if ended else state.waiting

    def is_closed(self) -> bool:
        return self._closed

    def set_closed(self) -> None:
        """Closes the rendezvous for this agent only: other agents may go on, or join later."""
        self._closed = True

    def shutdown(self) -> bool:
        """Leaves the group. torchrun calls it when its workers have finished or failed."""
        self._closed = True
        failure = sys.exc_info()[1]
        try:
            if self._membership is not None and failure is None:
                self._membership.finish(timeout=5)
            elif self._membership is not None:
                self._membership.fail(f"the workers have failed: {_first_line(failure)}", timeout=5)
        except Error:
            return False  # the daemon is away: the session ends, and the others are told then
        finally:
            for owner in (self._membership, self._proxy, self._client):
                if owner is not None:
                    owner.close()
            self._membership = self._proxy = self._client = None
            if self._promised is not None:
                self._promised.close()
        return True


def _hold_port() -> socket.socket:
    """Returns a socket that keeps its port from the connections of other processes. A server with
    SO_REUSEADDR, as PyTorch's, listens on the port meanwhile."""
    both = socket.has_dualstack_ipv6()
    holder = socket.socket(socket.AF_INET6 if both else socket.AF_INET)
    if both:
        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("", 0))
    return holder


def _first_line(failure: Optional[BaseException]) -> str:
    lines = [line for line in str(failure).splitlines() if line.strip("= ")]
    return lines[0][:200] if lines else type(failure).__name__


def create_handler(parameters: RendezvousParameters) -> C10ddRendezvousHandler:
    """Makes the handler of an agent. Raises InvalidArgument, a ValueError."""
    return C10ddRendezvousHandler(parameters)
