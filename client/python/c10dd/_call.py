# SPDX-License-Identifier: Apache-2.0
"""Converts arguments, calls the functions of the library, and raises its errors as exceptions."""

from __future__ import annotations

import ctypes
import datetime
import os
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Optional, Union

from . import _library
from ._library import library
from .errors import InvalidArgument, Missing, error_of

Seconds = Union[int, float, datetime.timedelta]
Bytes = Union[str, bytes, bytearray, memoryview]
Path = Union[str, "os.PathLike[str]"]

_FOREVER_NS = 30 * 24 * 3600 * 10**9  # the library's longest time-out
_Error = _library.Error
_ERROR_SIZE = ctypes.sizeof(_Error)


def nanoseconds(value: Optional[Seconds], what: str, usual: int) -> int:
    """Returns a duration in nanoseconds, or `usual` if the value is None."""
    if value is None:
        return usual
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be seconds or a timedelta, not {type(value).__name__}")
    if not value >= 0:
        raise InvalidArgument(f"{what} is {value} s: give 0 or more")
    return int(min(value * 10**9, _FOREVER_NS))


def to_bytes(value: Bytes, what: str) -> bytes:
    """Returns the bytes of a value. A str is encoded as UTF-8."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be str or bytes, not {type(value).__name__}")


def view(value: Bytes, what: str) -> _library.View:
    data = to_bytes(value, what)
    return _library.View(data, len(data))


def items_of(values: Iterable[Bytes], what: str) -> list[Bytes]:
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Iterable):
        raise TypeError(f"{what} must be a list of str or bytes, not {type(values).__name__}")
    return list(values)


def views(values: Iterable[Bytes], what: str) -> Any:
    all_views = [view(value, what) for value in items_of(values, what)]
    return (_library.View * len(all_views))(*all_views)


def text(value: Optional[str], what: str) -> Optional[bytes]:
    """Returns a text for the library. Refuses a NUL character, because C would end the text there."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgument(f"{what} contains a NUL character: remove it")
    return value.encode("utf-8", "surrogateescape")


def path(value: Optional[Path], what: str) -> Optional[bytes]:
    """Returns the path of a file for the library."""
    return None if value is None else text(os.fsdecode(value), what)


def from_text(value: Optional[bytes]) -> str:
    return "" if value is None else value.decode("utf-8", "surrogateescape")


def number(value: int, what: str, least: int, most: int) -> int:
    """Returns a number in these bounds. Refuses others, because ctypes would cut off their high bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if not least <= value <= most:
        raise InvalidArgument(f"{what} is {value}: give {least} to {most}")
    return value


U32 = 2**32 - 1
U64 = 2**64 - 1
I64 = 2**63 - 1
WORLD_SIZE = 131_072  # limits::kWorldSize


def missing_of(items: Any, count: int) -> tuple[Missing, ...]:
    return tuple(
        Missing(m.rank, from_text(m.host), from_text(m.cause), from_text(m.doing),
                m.silent_for_ns / 1e9, m.pid) for m in items[:count])


def take_bytes(block: _library.Block) -> bytes:
    """Copies a block with bytes and frees it."""
    try:
        return ctypes.string_at(block.data, block.size) if block.size else b""
    finally:
        library.c10dd_free(block.data)


def raw(part: _library.RawView) -> bytes:
    return ctypes.string_at(part.data, part.size) if part.size else b""


def take_list(items: _library.List) -> list[bytes]:
    try:
        return [raw(part) for part in items.items[:items.count]]
    finally:
        library.c10dd_free(items.items)


class _Asker:
    """Lets Python run the handlers of signals while the main thread blocks in the library.

    A signal's handler may raise (Ctrl-C raises KeyboardInterrupt) as soon as Python code runs: at
    the first instruction of a function, before any `try` of it, and at the end of a loop. So the
    library resumes a generator that is inside a `try` all the time.
    """

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None
        self._generator = self._answers()
        next(self._generator)
        self.function = _library.GoOn(self._generator.send)

    @property
    def usable(self) -> bool:
        return self._generator.gi_frame is not None

    def _answers(self) -> Generator[int, Optional[int], None]:
        answer = 1
        while True:
            try:
                while True:
                    try:
                        while True:
                            yield answer
                            answer = 1
                    except GeneratorExit:
                        return
                    except BaseException as error:
                        self._note(error)
                        answer = 0
            except BaseException as error:  # a second signal, just after the first
                self._note(error)
                answer = 0

    def _note(self, error: BaseException) -> None:
        """Keeps the exception for invoke_blocking(). Removes the frame of the generator from its traceback:
        unittest clears all frames of a traceback, and clearing this one would end the generator."""
        traceback = error.__traceback__
        self.raised = error.with_traceback(traceback.tb_next if traceback else None)


class _Frame:
    """The structs of one call. They are used again for later calls, because making them takes long."""

    def __init__(self, asker: Optional[_Asker]) -> None:
        self.asker = asker
        self.error = _Error(_ERROR_SIZE)
        self.call = _library.Call(ctypes.sizeof(_library.Call), -1,
                                  asker.function if asker else _library.GoOn())


# Free ones, of the main thread and of the others: a handler may make a call while another asks.
_main_frames: list[_Frame] = []
_other_frames: list[_Frame] = []


def _fail(error: _library.Error) -> None:
    code = library.c10dd_code_name(error.code).decode()
    failure = error_of(code, from_text(error.text), missing_of(error.missing, error.missing_count))
    library.c10dd_error_clear(error)
    raise failure


def invoke(function: Any, *arguments: Any) -> None:
    """Calls a function that does not block. Raises the exception of its code."""
    error = _Error(_ERROR_SIZE)
    if function(*arguments, error) != 0:
        _fail(error)


def invoke_blocking(function: Any, timeout: Optional[Seconds], before: tuple[Any, ...],
                    *after: Any, undo: Optional[Callable[[], None]] = None) -> None:
    """Calls a function whose c10dd_call comes between `before` and `after`.

    Does not hold the interpreter lock meanwhile. In the main thread, a signal whose handler raises
    ends the call. If the call had succeeded by then, `undo` disposes of the result.
    """
    timeout_ns = -1 if timeout is None else nanoseconds(timeout, "the time-out", -1)
    is_main = threading.current_thread() is threading.main_thread()
    frames = _main_frames if is_main else _other_frames
    frame = frames.pop() if frames else _Frame(_Asker() if is_main else None)
    frame.call.timeout_ns = timeout_ns
    code = function(*before, frame.call, *after, frame.error)
    asker = frame.asker
    if asker is not None and asker.raised is not None:
        raised, asker.raised = asker.raised, None
        library.c10dd_error_clear(frame.error)
        if asker.usable:
            frames.append(frame)
        if code == 0 and undo is not None:
            undo()
        raise raised
    try:
        if code != 0:
            _fail(frame.error)
    finally:
        frames.append(frame)
