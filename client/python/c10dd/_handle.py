# SPDX-License-Identifier: Apache-2.0
"""The base class of the objects that own a handle of the library."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional, TypeVar

from ._call import invoke
from .errors import Closed, Forked

_Self = TypeVar("_Self", bound="Owner")


class Owner:
    """Owns a handle. A context manager: closes it at the end of a `with` block.

    The library closes what is open when the process exits.
    """

    _close_function: Any = None  # of the library
    _kind = "object"

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._value: Optional[int] = handle.value

    @classmethod
    def _dispose(cls, handle: ctypes.c_void_p) -> None:
        """Closes a handle for which no object was made."""
        invoke(cls._close_function, handle)

    @property
    def _handle(self) -> int:
        if self._value is None:
            raise Closed(f"the {self._kind} was closed")
        return self._value

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._value is None

    def close(self) -> None:
        """Ends the object. Later calls raise Closed. A second close() does nothing."""
        handle, self._value = self._value, None
        if handle is None:
            return
        try:
            invoke(self._close_function, handle)
        except (Closed, Forked):
            pass  # the parent process still uses it

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {self._kind} cannot be copied or pickled, because it belongs to this process: "
                        "connect again in the other process")

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_value", None) is not None and not sys.is_finalizing():
            self.close()
