# SPDX-License-Identifier: Apache-2.0
"""The store of a job: keys with values, counters, queues, transactions and watches."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

from . import _library
from ._call import (
    I64, U64, Bytes, Seconds, invoke_blocking, items_of, nanoseconds, number, raw, take_bytes, take_list,
    to_bytes, view, views,
)
from ._handle import Owner
from ._library import library

if TYPE_CHECKING:
    from .client import Client


@dataclasses.dataclass(frozen=True)
class Entry:
    """A value, and the revision of the change that wrote it."""

    value: bytes
    revision: int


@dataclasses.dataclass(frozen=True)
class KeyList:
    """Keys in byte order. A watch from `revision` + 1 misses no change."""

    keys: list[str]
    revision: int


@dataclasses.dataclass(frozen=True)
class Change:
    """One change of one key. `value` is None if the key was removed."""

    revision: int
    key: str
    value: Optional[bytes]


@dataclasses.dataclass(frozen=True)
class TransactionResult:
    """The outcome of Transaction.commit(). It is false if nothing was applied."""

    applied: bool
    #: Index of the first condition that does not hold; None if all do.
    failed: Optional[int]
    #: Revision of the change; if not applied, the newest revision.
    revision: int
    #: Results of the add() actions, in their order.
    sums: list[int]

    def __bool__(self) -> bool:
        return self.applied


def _key_text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


class Store:
    """The store of a job, or a view of it whose keys have a prefix. Thread-safe.

    Keys have 1 to 8,192 bytes, values at most 8 MiB. Keys and values are str (as UTF-8) or bytes;
    a value that is read is bytes, and a key that is read is str, in which bytes that are not UTF-8
    are escaped ("surrogateescape"). A time-out is in seconds, or a timedelta; None means that of
    connect(). All calls may raise Error or a subclass.
    """

    def __init__(self, client: Client, prefix: bytes = b"") -> None:
        self._client = client
        self._prefix = prefix

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a store cannot be copied or pickled, because it belongs to this process: "
                        "connect again in the other process")

    def prefix(self, prefix: Bytes) -> Store:
        """Returns a view that puts `prefix` and a slash before every key and queue name."""
        return Store(self._client, self._prefix + to_bytes(prefix, "the prefix") + b"/")

    # ---- arguments and results

    def _key(self, key: Bytes) -> _library.View:
        full = self._prefix + to_bytes(key, "the key")
        return _library.View(full, len(full))

    def _keys(self, keys: Iterable[Bytes]) -> Any:
        found = [self._key(key) for key in items_of(keys, "the keys")]
        return (_library.View * len(found))(*found)

    def _own(self, key: bytes) -> str:
        return _key_text(key[len(self._prefix):])

    def _call(self, name: str, timeout: Optional[Seconds], before: tuple[Any, ...],
              *after: Any) -> None:
        handle = self._client._handle
        invoke_blocking(getattr(library, "c10dd_" + name), timeout, (handle, *before), *after)

    def _count(self, name: str, timeout: Optional[Seconds], *before: Any) -> int:
        result = ctypes.c_uint64()
        self._call(name, timeout, before, result)
        return result.value

    # ---- keys

    def set(self, key: Bytes, value: Bytes, *, ttl: Optional[Seconds] = None,
            ephemeral: bool = False, timeout: Optional[Seconds] = None) -> int:
        """Sets a key and returns the revision of the change.

        The daemon removes the key after `ttl`. It removes an ephemeral key when this client has gone.
        """
        options = _library.SetOptions(ctypes.sizeof(_library.SetOptions),
                                      nanoseconds(ttl, "ttl", 0), bool(ephemeral))
        return self._count("set", timeout, self._key(key), view(value, "the value"), options)

    def get(self, key: Bytes, timeout: Optional[Seconds] = None) -> bytes:
        """Returns the value of a key. Waits for the key up to `timeout`, then raises TimedOut. If
        `timeout` is 0, raises NotFound at once."""
        block = _library.Block()
        self._call("get", timeout, (self._key(key),), block, None)
        return take_bytes(block)

    def entry(self, key: Bytes, timeout: Optional[Seconds] = None) -> Entry:
        """Works as get(), and also returns the revision that wrote the value."""
        block, revision = _library.Block(), ctypes.c_uint64()
        self._call("get", timeout, (self._key(key),), block, revision)
        return Entry(take_bytes(block), revision.value)

    def wait(self, keys: Iterable[Bytes], timeout: Optional[Seconds] = None) -> None:
        """Waits until all keys exist. Raises TimedOut, which names the missing ones."""
        array = self._keys(keys)
        self._call("wait", timeout, (array, len(array)))

    def check(self, keys: Iterable[Bytes], *, timeout: Optional[Seconds] = None) -> bool:
        """Returns whether all keys exist now."""
        array, result = self._keys(keys), ctypes.c_int()
        self._call("check", timeout, (array, len(array)), result)
        return bool(result.value)

    def add(self, key: Bytes, amount: int = 1, *, timeout: Optional[Seconds] = None) -> int:
        """Adds to a counter, exactly once, and returns the sum. A missing key counts as 0."""
        amount, result = number(amount, "the amount", -I64 - 1, I64), ctypes.c_int64()
        self._call("add", timeout, (self._key(key), amount), result)
        return result.value

    def append(self, key: Bytes, value: Bytes, *, timeout: Optional[Seconds] = None) -> int:
        """Adds bytes to the end of a value, exactly once, and returns its new length in bytes."""
        return self._count("append", timeout, self._key(key), view(value, "the value"))

    def compare_set(self, key: Bytes, expected: Bytes, desired: Bytes, *,
                    timeout: Optional[Seconds] = None) -> bytes:
        """Stores `desired` if the value is `expected`. A missing key counts as "". Returns the new value.

        If the key is missing and `expected` is not "", returns `expected`, as PyTorch does.
        """
        block = _library.Block()
        self._call("compare_set", timeout,
                   (self._key(key), view(expected, "the expected value"),
                    view(desired, "the desired value")), block)
        return take_bytes(block)

    def remove(self, key: Bytes, *, timeout: Optional[Seconds] = None) -> bool:
        """Removes a key. Returns whether it existed."""
        result = ctypes.c_int()
        self._call("remove", timeout, (self._key(key),), result)
        return bool(result.value)

    def remove_prefix(self, prefix: Bytes, *, timeout: Optional[Seconds] = None) -> int:
        """Removes all keys with a prefix in one change. Returns the number of removed keys."""
        return self._count("remove_prefix", timeout, self._key(prefix))

    def multi_get(self, keys: Iterable[Bytes], timeout: Optional[Seconds] = None) -> list[bytes]:
        """Returns many values, all read at the same moment. Waits for missing keys as get() does."""
        array, result = self._keys(keys), _library.List()
        self._call("multi_get", timeout, (array, len(array)), result)
        return take_list(result)

    def multi_set(self, values: Mapping[Any, Bytes], *,
                  timeout: Optional[Seconds] = None) -> None:
        """Sets many keys in one change: {key: value}."""
        items = dict(values)
        self._call("multi_set", timeout,
                   (self._keys(items), views(items.values(), "the values"), len(items)))

    def list(self, prefix: Bytes = "", *, timeout: Optional[Seconds] = None) -> list[str]:
        """Returns all keys with a prefix, in byte order."""
        return self.list_keys(prefix, timeout=timeout).keys

    def list_keys(self, prefix: Bytes = "", *, timeout: Optional[Seconds] = None) -> KeyList:
        """Works as list(), and also returns the revision of the list."""
        result, revision = _library.List(), ctypes.c_uint64()
        self._call("list_keys", timeout, (self._key(prefix),), result, revision)
        return KeyList([self._own(key) for key in take_list(result)], revision.value)

    def count(self, prefix: Bytes = "", *, timeout: Optional[Seconds] = None) -> int:
        """Returns the number of keys with a prefix."""
        return self._count("count", timeout, self._key(prefix))

    # ---- queues

    def queue_push(self, queue: Bytes, item: Bytes, *, timeout: Optional[Seconds] = None) -> int:
        """Adds an item to the end of a queue, exactly once. Returns the length of the queue."""
        return self._count("queue_push", timeout, self._key(queue), view(item, "the item"))

    def queue_pop(self, queue: Bytes, timeout: Optional[Seconds] = None) -> bytes:
        """Removes the oldest item and returns it. Waits for an item up to `timeout`, then raises
        TimedOut. If `timeout` is 0, raises NotFound at once."""
        block = _library.Block()
        self._call("queue_pop", timeout, (self._key(queue),), block)
        return take_bytes(block)

    def queue_length(self, queue: Bytes, *, timeout: Optional[Seconds] = None) -> int:
        """Returns the number of items in a queue."""
        return self._count("queue_length", timeout, self._key(queue))

    # ---- transactions and watches

    def transaction(self) -> Transaction:
        """Returns a builder of conditions and actions that are applied as one change."""
        return Transaction(self)

    def watch(self, key: Bytes, revision: int = 0, *, timeout: Optional[Seconds] = None) -> Watch:
        """Watches a key from a revision on. With revision 0, the watch sees each change that is made
        after watch() has returned."""
        return self._watch(key, False, revision, timeout)

    def watch_prefix(self, prefix: Bytes = "", revision: int = 0, *,
                     timeout: Optional[Seconds] = None) -> Watch:
        """Watches all keys with a prefix. Otherwise works as watch()."""
        return self._watch(prefix, True, revision, timeout)

    def _watch(self, key: Bytes, is_prefix: bool, revision: int,
               timeout: Optional[Seconds]) -> Watch:
        handle = ctypes.c_void_p()
        self._call("watch_open", timeout,
                   (self._key(key), is_prefix, number(revision, "revision", 0, U64)), handle)
        return Watch(handle, self)


class Transaction:
    """A builder of conditions and actions. commit() applies all actions if all conditions hold.

    >>> store.transaction().if_absent("leader").set("leader", name).add("terms", 1).commit()

    Each method returns the transaction. At most 1,024 conditions and 1,024 actions, of which at
    most 16 are add(). Not thread-safe.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._conditions: list[_library.Condition] = []
        self._actions: list[_library.Action] = []

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a transaction cannot be copied or pickled: connect again in the other process")

    def _if(self, kind: int, key: Bytes, value: Bytes = b"", revision: int = 0) -> Transaction:
        self._conditions.append(_library.Condition(
            kind, self._store._key(key), view(value, "the value"),
            number(revision, "revision", 0, U64)))
        return self

    def _do(self, kind: int, key: Bytes, value: Bytes = b"", delta: int = 0, ttl: int = 0,
            ephemeral: bool = False) -> Transaction:
        self._actions.append(_library.Action(
            kind, self._store._key(key), view(value, "the value"),
            number(delta, "the amount", -I64 - 1, I64), ttl, bool(ephemeral)))
        return self

    def if_exists(self, key: Bytes) -> Transaction:
        return self._if(0, key)

    def if_absent(self, key: Bytes) -> Transaction:
        return self._if(1, key)

    def if_value(self, key: Bytes, value: Bytes) -> Transaction:
        return self._if(2, key, value)

    def if_revision(self, key: Bytes, revision: int) -> Transaction:
        """Requires that the last change of the key has this revision. 0 means that the key is absent."""
        return self._if(3, key, revision=revision)

    def set(self, key: Bytes, value: Bytes, *, ttl: Optional[Seconds] = None,
            ephemeral: bool = False) -> Transaction:
        return self._do(0, key, value, ttl=nanoseconds(ttl, "ttl", 0), ephemeral=ephemeral)

    def remove(self, key: Bytes) -> Transaction:
        return self._do(1, key)

    def add(self, key: Bytes, amount: int = 1) -> Transaction:
        return self._do(2, key, delta=amount)

    def append(self, key: Bytes, value: Bytes) -> Transaction:
        return self._do(3, key, value)

    def queue_push(self, queue: Bytes, item: Bytes) -> Transaction:
        return self._do(4, queue, item)

    def commit(self, *, timeout: Optional[Seconds] = None) -> TransactionResult:
        """Applies the actions, exactly once."""
        conditions = (_library.Condition * len(self._conditions))(*self._conditions)
        actions = (_library.Action * len(self._actions))(*self._actions)
        result = _library.TransactionResult()
        self._store._call("transact", timeout,
                          (conditions, len(conditions), actions, len(actions)), result)
        return TransactionResult(bool(result.applied), None if result.applied else result.failed,
                                 result.revision, list(result.sums[:result.sum_count]))


class Watch(Owner):
    """The changes of a key, or of all keys with a prefix: each once and in order, also over
    restarts of the daemon. An iterator that waits for the next change. One thread at a time."""

    _close_function = library.c10dd_watch_close
    _kind = "watch"

    def __init__(self, handle: ctypes.c_void_p, store: Store) -> None:
        super().__init__(handle)
        self._store = store
        self._read: list[Change] = []
        #: A new watch from this revision misses no change, and may repeat some.
        self.revision = 0

    def next(self, timeout: Optional[Seconds] = None) -> list[Change]:
        """Returns the changes since the last call. Waits for a change up to `timeout`, then returns [].

        Raises Compacted if the daemon no longer keeps them, and Aborted after close().
        """
        if self._read:
            changes, self._read = self._read, []
            return changes
        batch = _library.Changes()
        invoke_blocking(library.c10dd_watch_next, timeout, (self._handle,), batch,
                        undo=lambda: self._read.extend(self._take(batch)))
        return self._take(batch)

    def _take(self, batch: _library.Changes) -> list[Change]:
        try:
            self.revision = batch.next
            return [Change(one.revision, self._store._own(raw(one.key)),
                           None if one.removed else raw(one.value))
                    for one in batch.items[:batch.count]]
        finally:
            library.c10dd_free(batch.items)

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        while not self._read:
            self._read = self.next()
        return self._read.pop(0)
