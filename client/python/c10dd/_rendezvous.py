# SPDX-License-Identifier: Apache-2.0
"""The rendezvous of c10dd:// in this process: what each has open, and when that ends."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

from .client import Client, Proxy
from .errors import Error, InvalidArgument

Key = tuple[str, str]  # URL and name


class RendezvousTable:
    """The rendezvous of this process. Thread-safe.

    The client of a rendezvous is the presence of this process in that launch. It ends when the
    process begins the next rendezvous under the same key, or when no store of the key is in use. A
    proxy ends when its last store is destroyed, which may be later: a model keeps its old group.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Key, str] = {}
        self._present: dict[Key, Client] = {}
        self._proxies: list[tuple[Key, Proxy]] = []

    @contextlib.contextmanager
    def begin(self, key: Key, who: str) -> Iterator[None]:
        """Ends the presence in the launch before; within the block the key belongs to this thread.

        `who` is a rank, for errors. Raises InvalidArgument if another thread has the key.
        """
        with self._lock:
            if key in self._running:
                raise InvalidArgument(
                    f"{key[0]}: this thread begins a rendezvous as {who}, while another thread of "
                    f"this process is in one as {self._running[key]}: begin one after the other, or "
                    "give each its own ?name= in the URL")
            self._running[key] = who
            before = self._present.pop(key, None)
        try:
            if before is not None:
                before.close()
            yield
        finally:
            with self._lock:
                self._running.pop(key, None)

    def keep(self, key: Key, client: Client, proxy: Proxy) -> None:
        """Keeps both until the stores that are connected to the proxy are destroyed."""
        with self._lock:
            self._present[key] = client
            self._proxies.append((key, proxy))
        threading.Thread(target=self._end, args=(key, proxy), daemon=True,
                         name="c10dd-rendezvous").start()

    def _end(self, key: Key, proxy: Proxy) -> None:
        with contextlib.suppress(Error):  # somebody has closed it
            proxy.wait_left()
        proxy.close()
        with self._lock:
            self._proxies.remove((key, proxy))
            in_use = any(other == key for other, _ in self._proxies)
            client = None if in_use else self._present.pop(key, None)
        if client is not None:
            client.close()

    def drop_in_child(self) -> None:
        """Empties the table in a forked process, which starts with none.

        Ends the child's share of the stores' connections: otherwise a data loader would keep the
        stores of its parent open. The numbers of the descriptors stay taken, because the objects
        of PyTorch in the child close them.
        """
        ports = {proxy.port for _, proxy in self._proxies}
        self.__init__()  # type: ignore[misc] # the lock may be held
        if not ports:
            return
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            for number in map(int, os.listdir("/proc/self/fd")):
                if _peer_port(number) in ports:
                    os.dup2(nowhere, number, inheritable=False)
            os.close(nowhere)


def _peer_port(number: int) -> int:
    """Returns the port on this machine to which a descriptor is connected; 0 if it is to none."""
    try:
        with socket.socket(fileno=os.dup(number)) as connection:
            host, port, *_ = connection.getpeername()
    except (OSError, ValueError, TypeError):
        return 0
    return int(port) if host in ("127.0.0.1", "::ffff:127.0.0.1") else 0
