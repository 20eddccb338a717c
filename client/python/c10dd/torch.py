# SPDX-License-Identifier: Apache-2.0
"""PyTorch over the daemon, without a store that dies with rank 0.

    torch.distributed.init_process_group("nccl", init_method="c10dd://head:29500/llm")

From PyTorch 2.5 on an installed c10dd registers the scheme by itself; before, or with
TORCH_DEVICE_BACKEND_AUTOLOAD=0, `import c10dd.torch` does. With C10DD_TORCH=env in the environment,
env:// (the default of init_process_group) means the URL in C10DD_URL.

Each rendezvous has a client of its own, and is an exchange of the job, in which rank 0 gives the name
of a new run: so a missing rank is named, a second launch of a running job is refused, and no launch
reads the keys of another. The store is PyTorch's own TCPStore, connected to a proxy in this process
(c10dd.Proxy): no call fails while the daemon is away. destroy_process_group() ends all of it; the next
rendezvous is a new launch, with its own rank and world size, in which new processes may take part.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import urllib.parse
from collections.abc import Iterator
from typing import Any, Optional

import torch.distributed as dist

import _c10dd_torch

from ._nearest import nearest
from ._rendezvous import RendezvousTable
from .client import Launch, Proxy, connect, read_launch
from .errors import InvalidArgument
from .membership import Shape

_c10dd_torch.register()

_CONNECT_TIMEOUT = datetime.timedelta(seconds=30)
_KEYS = ("name", "rank", "world_size")


@dataclasses.dataclass(frozen=True)
class _Place:
    """A URL without its query, and the values of the query."""

    url: str
    name: str
    rank: Optional[int]
    world_size: Optional[int]


def _number(query: dict[str, str], key: str) -> Optional[int]:
    value = query.get(key)
    if value is None or value == "-1":  # PyTorch's "not given"
        return None
    if not value.isascii() or not value.isdigit():
        raise InvalidArgument(f'{key}={value} in the URL is not a number: give 0 or more')
    return int(value)


def _parse(url: str) -> _Place:
    base, _, rest = url.partition("?")
    query = dict(urllib.parse.parse_qsl(rest, keep_blank_values=True))
    for key in query:
        if key not in _KEYS:
            raise InvalidArgument(f'unknown key "{key}" in {url}{nearest(key, _KEYS)}; the keys are '
                                  + ", ".join(_KEYS))
    return _Place(base, query.get("name", "default"), _number(query, "rank"),
                  _number(query, "world_size"))


def _seat(place: _Place, rank: Optional[int], world_size: Optional[int]) -> tuple[int, int, str]:
    """Returns rank and world size from the call, otherwise from the URL, otherwise from the launcher."""
    rank = place.rank if rank is None else rank
    world_size = place.world_size if world_size is None else world_size
    launch: Optional[Launch] = None
    if rank is None or world_size is None:
        launch = read_launch()
        rank = launch.rank if rank is None else rank
        world_size = launch.world_size if world_size is None else world_size
    if rank is None or world_size is None:
        lacks = " and ".join(name for name, value in (("rank", rank), ("world_size", world_size))
                             if value is None)
        raise InvalidArgument(
            f"{place.url}: unknown {lacks}: pass rank= and world_size=, add ?rank=0&world_size=2 to "
            f"the URL, or start this process with a launcher ({launch.summary})")
    return rank, world_size, launch.summary if launch else ""


_table = RendezvousTable()
os.register_at_fork(after_in_child=_table.drop_in_child)


def _open(place: _Place, rank: Optional[int], world_size: Optional[int],
          timeout: datetime.timedelta) -> tuple[Any, int, int]:
    rank, world_size, launcher = _seat(place, rank, world_size)
    key = (place.url, place.name)
    with _table.begin(key, f"rank {rank} of {world_size}"), contextlib.ExitStack() as undo:
        client = undo.enter_context(
            connect(place.url, rank=rank, world_size=world_size, launcher=launcher or None, run="",
                    timeout=timeout, connect_timeout=min(timeout, _CONNECT_TIMEOUT)))
        run = f"torch.{place.name}.{os.urandom(8).hex()}"
        given = client.exchange(f"torch/{place.name}", [run] if rank == 0 else [],
                                shape=Shape.FROM_ROOT, awaits_earlier=True, timeout=timeout)
        proxy = undo.enter_context(client.open_proxy(run=given[0].decode()))
        store = tcp_store(proxy, world_size, timeout)
        _table.keep(key, client, proxy)
        undo.pop_all()  # both are kept
    return store, rank, world_size


def tcp_store(proxy: Proxy, world_size: int, timeout: datetime.timedelta) -> Any:
    """Returns PyTorch's TCPStore, connected to a proxy."""
    return dist.TCPStore("127.0.0.1", proxy.port, world_size, False, timeout,
                         wait_for_workers=False)


def store(url: str, *, rank: Optional[int] = None, world_size: Optional[int] = None,
          timeout: datetime.timedelta = datetime.timedelta(minutes=10)) -> Any:
    """Returns the store of a rendezvous, for `store=` of init_process_group().

    `url` is c10dd://host:port/job, with a query as in init_method: ?rank=, ?world_size=, ?name=.
    Each rank of the job must call it. Raises c10dd.TimedOut, which names the missing ranks.
    """
    return _open(_parse(url), rank, world_size, timeout)[0]


def c10dd_handler(url: str, timeout: Any = datetime.timedelta(minutes=10),
                  **_: Any) -> Iterator[tuple[Any, int, int]]:
    """The rendezvous handler of c10dd://, see torch.distributed.rendezvous()."""
    place = _parse(url)
    yield _open(place, None, None, timeout)
    raise RuntimeError("c10dd:// does not support a second rendezvous in one call")  # as those of PyTorch


def env_handler(url: str, timeout: Any = datetime.timedelta(minutes=10),
                **_: Any) -> Iterator[tuple[Any, int, int]]:
    """The rendezvous handler of env:// with C10DD_TORCH=env. Uses the URL in C10DD_URL."""
    base = os.environ.get("C10DD_URL")
    if not base:
        raise InvalidArgument("C10DD_TORCH=env, but C10DD_URL is not set: set it to "
                              "c10dd://host:port/job, or unset C10DD_TORCH")
    query = url.partition("?")[2]  # rank and world size of the call
    return c10dd_handler(base + ("&" if "?" in base else "?") + query if query else base, timeout)
