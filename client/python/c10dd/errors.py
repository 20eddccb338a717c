# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package. Each says in one sentence what was wrong and what to do."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Missing:
    """A rank that did not arrive in time, or that a group has lost."""

    rank: int
    #: Empty if the rank never connected in this launch.
    host: str
    #: never_connected, not_arrived, disconnected, elsewhere, silent, dead, absent or left.
    cause: str
    #: Where the rank waits, its phase and step, or how it ended; or empty.
    doing: str
    #: Seconds since the rank's last sign of life.
    silent_for: float
    #: 0 if the rank never connected.
    pid: int


class Error(Exception):
    """Base of all exceptions of the package. `code` is a stable name, for programs."""

    code = "internal"
    #: Ranks that the error names; of a call that has timed out, was aborted, or cannot go on.
    missing: tuple[Missing, ...] = ()

    def __str__(self) -> str:  # that of KeyError would quote the text
        return str(self.args[0]) if self.args else ""


class TimedOut(Error, TimeoutError):
    """A time-out has passed. `missing` has the ranks that are known not to have arrived."""


class NotFound(Error, KeyError):
    """A key, item, group or notice does not exist."""


class InvalidArgument(Error, ValueError):
    """The caller passed an invalid value. Nothing was changed."""


class OutOfRange(Error, OverflowError):
    """The sum exceeds 64 bits. The value is unchanged."""


class WrongType(Error, TypeError):
    """The value is not a decimal integer. It is unchanged."""


class Unavailable(Error, ConnectionError):
    """Something that the operation needs cannot be used."""


class OutcomeUnknown(Error, ConnectionError):
    """The change may or may not have been made: read the state before you repeat it."""


class StateRolledBack(Error):
    """The daemon's state is older than what this client has seen. Start the job again."""


class SessionReplaced(Error):
    """A restarted process has taken the rank of this process. End this process."""


class Compacted(Error):
    """The daemon no longer keeps the changes that a watch asked for. List the keys again."""


class DiskFull(Error):
    """The disk of the daemon has no room. Nothing was changed."""


class QuotaExceeded(Error):
    """A limit of the job or the daemon would be exceeded. Nothing was changed."""


class PermissionDenied(Error, PermissionError):
    """The daemon does not allow this."""


class RankTaken(Error):
    """Another process has this rank."""


class Aborted(Error):
    """The operation was ended, or the generation has ended. Call Membership.next() to go on."""


class StaleGeneration(Aborted):
    """The group has a newer generation. Call Membership.next() to go on."""


class WorkFinished(Error):
    """The group has finished its work, and this process, a spare, was not needed. End it with 0."""


class Closed(Error, RuntimeError):
    """The client, watch, membership or proxy was closed."""


class Forked(Error, RuntimeError):
    """The object belongs to the process from which this one was forked. Connect again."""


_CLASSES: dict[str, type[Error]] = {
    "timed_out": TimedOut,
    "not_found": NotFound,
    "invalid_argument": InvalidArgument,
    "too_large": InvalidArgument,
    "out_of_range": OutOfRange,
    "wrong_type": WrongType,
    "unavailable": Unavailable,
    "outcome_unknown": OutcomeUnknown,
    "state_rolled_back": StateRolledBack,
    "session_replaced": SessionReplaced,
    "compacted": Compacted,
    "disk_full": DiskFull,
    "quota_exceeded": QuotaExceeded,
    "permission_denied": PermissionDenied,
    "unauthenticated": PermissionDenied,
    "rank_taken": RankTaken,
    "aborted": Aborted,
    "stale_generation": StaleGeneration,
    "work_finished": WorkFinished,
    "closed": Closed,
    "forked": Forked,
}
for _class in {Error, Missing, *_CLASSES.values()}:
    _class.__module__ = "c10dd"  # tracebacks show the public name
for _name, _error in reversed(_CLASSES.items()):
    _error.code = _name  # of those that Python raises; the first name of a class


def error_of(code: str, text: str, missing: tuple[Missing, ...]) -> Error:
    """Returns the exception for a failed call."""
    error = _CLASSES.get(code, Error)(text)
    error.code = code
    error.missing = missing
    return error
