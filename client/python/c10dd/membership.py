# SPDX-License-Identifier: Apache-2.0
"""The membership of this process in a group: rank, generation, members, status."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional

from . import _library
from ._call import (
    U32, U64, Bytes, Seconds, from_text, invoke, invoke_blocking, missing_of, nanoseconds, number,
    take_list, text, view, views,
)
from ._handle import Owner
from ._library import library
from .errors import InvalidArgument, Missing

if TYPE_CHECKING:
    from .client import Client


class Shape(enum.IntEnum):
    """Which parts each rank gives to an exchange, and which it gets.

    ALL: gives 1, gets those of all ranks. TO_ROOT: gives 1; the root gets all, the others none.
    FROM_ROOT: the root gives 1 for all ranks or 1 per rank; each gets 1. TRANSPOSE: gives 1 per
    rank, gets 1 from each rank.
    """

    ALL = 0
    TO_ROOT = 1
    FROM_ROOT = 2
    TRANSPOSE = 3


class Phase(enum.IntEnum):
    """FORMING: waits for members. BROKEN: the generation has ended. FINISHED: all have finished."""

    FORMING = 0
    FORMED = 1
    BROKEN = 2
    FINISHED = 3


@dataclasses.dataclass(frozen=True)
class Generation:
    """A list of members that all agreed on, and the rank of this process in it."""

    round: int
    #: Identifies the list of members.
    number: int
    rank: int
    world_size: int
    #: Hash of the list; equal for all members.
    digest: int
    #: How many generations of this group have ended by a failure.
    failures: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Member:
    """One member of a generation."""

    rank: int
    host: str
    pid: int
    local_rank: int
    device: str
    domain: str
    labels: dict[str, str]
    step: int
    #: Rank in the previous generation; -1 if this process was not a member.
    previous_rank: int


@dataclasses.dataclass(frozen=True)
class Notice:
    """A request that some members leave the group, within `left` seconds; 0: no deadline."""

    number: int
    preempt: bool
    ranks: list[int]
    left: float
    reason: str


@dataclasses.dataclass(frozen=True)
class GroupState:
    """The status of the group, as far as this process knows it."""

    #: Counts the changes that this process has seen.
    change: int
    phase: Phase
    #: True if the daemon may have declared this process lost: it must not act as a member.
    fenced: bool
    round: int
    #: Number of the newest generation.
    generation: int
    #: Why the generation formed or ended, with ranks and hosts.
    reason: str
    lost: list[int]
    finished: list[int]
    stalled: list[int]
    missing: tuple[Missing, ...]
    #: Newcomers that get a place when the members call next().
    waiting: int
    notices: list[Notice]

    def ended(self, generation: int) -> bool:
        """Returns whether no more work is possible in the generation with this number."""
        return (self.fenced or self.generation != generation
                or self.phase in (Phase.BROKEN, Phase.FORMING))


def barrier_options(rank: Optional[int], world_size: Optional[int], generation: int, shape: Shape,
                    root: int, awaits_earlier: bool = False) -> _library.BarrierOptions:
    if world_size is not None and world_size < 1:
        raise InvalidArgument(f"world_size is {world_size}: give 1 or more")
    return _library.BarrierOptions(
        ctypes.sizeof(_library.BarrierOptions), number(rank or 0, "rank", 0, U32),
        number(world_size or 0, "world_size", 0, U32), number(generation, "generation", 0, U64),
        Shape(shape), number(root, "root", 0, U32), bool(awaits_earlier))


def parts_of(parts: Any) -> Any:
    """Returns the parts of an exchange. A single str or bytes counts as a list with one part."""
    one = isinstance(parts, (str, bytes, bytearray, memoryview))
    return views([parts] if one else parts, "the parts")


def _take_generation(pointer: Any) -> Generation:
    try:
        g = pointer.contents
        return Generation(g.round, g.number, g.rank, g.world_size, g.digest, g.failures,
                          from_text(g.reason))
    finally:
        library.c10dd_free(pointer)


def _labels(items: Any, count: int) -> dict[str, str]:
    return {from_text(one.name): from_text(one.value) for one in items[:count]}


def _ranks(ranks: _library.Ranks) -> list[int]:
    return list(ranks.items[:ranks.count])


def _to_ranks(ranks: Iterable[int]) -> _library.Ranks:
    values = [number(rank, "a rank", 0, U32) for rank in ranks]
    array = (ctypes.c_uint32 * len(values))(*values)
    result = _library.Ranks(ctypes.cast(array, ctypes.POINTER(ctypes.c_uint32)), len(values))
    result.kept = array
    return result


class Membership(Owner):
    """The membership of this process in a group. Thread-safe. Made by Client.rendezvous().

    close() leaves the group, unless this process has left or finished.
    """

    _close_function = library.c10dd_membership_close
    _kind = "membership"

    def __init__(self, handle: ctypes.c_void_p, client: Client, group: str) -> None:
        super().__init__(handle)
        self._client = client
        self.group = group

    def _call(self, name: str, timeout: Optional[Seconds], before: tuple[Any, ...],
              *after: Any) -> None:
        function = getattr(library, "c10dd_membership_" + name)
        invoke_blocking(function, timeout, (self._handle, *before), *after)

    def generation(self) -> Generation:
        """Returns the generation of the last next(), or of the rendezvous. Does not block."""
        pointer = ctypes.POINTER(_library.Generation)()
        invoke(library.c10dd_membership_generation, self._handle, pointer)
        return _take_generation(pointer)

    @property
    def rank(self) -> int:
        return self.generation().rank

    @property
    def world_size(self) -> int:
        return self.generation().world_size

    def members(self, *, timeout: Optional[Seconds] = None) -> list[Member]:
        """Returns the members of the generation, ordered by rank."""
        found = _library.Members()
        self._call("members", timeout, (), found)
        try:
            return [Member(m.rank, from_text(m.host), m.pid, m.local_rank, from_text(m.device),
                           from_text(m.domain), _labels(m.labels, m.label_count), m.step,
                           m.previous_rank) for m in found.items[:found.count]]
        finally:
            library.c10dd_free(found.items)

    def state(self) -> GroupState:
        """Returns the newest status that this process knows. Does not block."""
        return self.wait_change(0, 0)

    def wait_change(self, seen: int, timeout: Optional[Seconds] = None) -> GroupState:
        """Waits for a status whose `change` is above `seen`, and returns it. Returns the present status
        after the time-out, which is 300 s if it is None."""
        pointer = ctypes.POINTER(_library.GroupState)()
        self._call("state", timeout, (number(seen, "seen", 0, U64),), pointer)
        try:
            s = pointer.contents
            notices = [Notice(n.number, bool(n.preempt), _ranks(n.ranks), n.left_ns / 1e9,
                              from_text(n.reason)) for n in s.notices[:s.notice_count]]
            return GroupState(s.change, Phase(s.phase), bool(s.fenced), s.round, s.generation,
                              from_text(s.reason), _ranks(s.lost), _ranks(s.finished),
                              _ranks(s.stalled), missing_of(s.missing, s.missing_count), s.waiting,
                              notices)
        finally:
            library.c10dd_free(pointer)

    def changes(self) -> Iterator[GroupState]:
        """Yields the present status, then each new one."""
        state = self.state()
        while True:
            yield state
            seen = state.change
            while state.change <= seen:
                state = self.wait_change(seen)

    def next(self, step: int = 0, *, timeout: Optional[Seconds] = None) -> Generation:
        """Ends the present generation, joins the next one, and waits for a place in it."""
        pointer = ctypes.POINTER(_library.Generation)()
        self._call("next", timeout, (number(step, "step", 0, U64),), pointer)
        return _take_generation(pointer)

    def leave(self, detail: str = "", *, timeout: Optional[Seconds] = None) -> None:
        """Takes this process out and ends the generation; the others go on in the next one."""
        self._call("leave", timeout, (text(detail, "detail"),))

    def finish(self, detail: str = "", *, timeout: Optional[Seconds] = None) -> None:
        """Takes this process out because its work is done. The generation goes on."""
        self._call("finish", timeout, (text(detail, "detail"),))

    def fail(self, detail: str, generation: int = 0, *,
             timeout: Optional[Seconds] = None) -> None:
        """Takes this process out and ends the generation with a failure."""
        self._call("fail", timeout,
                   (text(detail, "detail"), number(generation, "generation", 0, U64)))

    def progress(self, phase: str, step: int, limit: Optional[Seconds] = None) -> None:
        """Reports what this process does. With a limit, promises to report again within it."""
        invoke(library.c10dd_membership_progress, self._handle, text(phase, "phase"),
               number(step, "step", 0, U64), nanoseconds(limit, "limit", 0))

    def notify(self, ranks: Iterable[int] = (), *, host: Optional[str] = None, reason: str = "",
               left: Optional[Seconds] = None, preempt: bool = False,
               timeout: Optional[Seconds] = None) -> int:
        """Asks the ranks, and all ranks on a host, to leave. Returns the number of the notice."""
        chosen, result = _to_ranks(ranks), ctypes.c_uint64()
        notice = _library.Notice(0, bool(preempt), chosen, nanoseconds(left, "left", 0),
                                 text(reason, "reason"))
        self._call("notify", timeout, (notice, text(host, "host")), result)
        return result.value

    def acknowledge(self, notice: int, *, timeout: Optional[Seconds] = None) -> None:
        """Reports that this process has seen a notice."""
        self._call("acknowledge", timeout, (number(notice, "notice", 0, U64),))

    def barrier(self, name: Bytes, *, participants: Iterable[int] = (),
                timeout: Optional[Seconds] = None) -> None:
        """Works as Client.barrier() within the generation. Raises Aborted at once if the generation ends."""
        self._call("barrier", timeout, (view(name, "the name"), _to_ranks(participants)))

    def exchange(self, name: Bytes, parts: Any, *, shape: Shape = Shape.ALL, root: int = 0,
                 participants: Iterable[int] = (),
                 timeout: Optional[Seconds] = None) -> list[bytes]:
        """Works as Client.exchange() within the generation. Raises Aborted at once if the generation ends."""
        given, result = parts_of(parts), _library.List()
        self._call("exchange", timeout,
                   (view(name, "the name"), given, len(given), _to_ranks(participants),
                    barrier_options(None, None, 0, shape, root)), result)
        return take_list(result)
