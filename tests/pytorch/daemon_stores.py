# SPDX-License-Identifier: Apache-2.0
"""Replaces torch.distributed.TCPStore in this process: a store that would start a server of its own (is_master=True,
also by rendezvous) starts a daemon on the same port instead and becomes its client. All else is PyTorch's.

The objects are PyTorch's own, so they may outlive their Python names; a daemon lives until stop_since() or the end
of the process. Two masters on one port share a daemon if the second one is multi_tenant, and are refused otherwise.
Left out: processes that a test starts, whose TCPStore is PyTorch's; and that a master waits for the clients."""
import inspect
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import Daemon  # noqa: E402

# The arguments of the constructor by position, the same from 1.13 on; the others are passed by name only.
POSITIONS = ("host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant")


class Daemons:
    """The daemons of this process, by the order in which they were started."""

    def __init__(self):
        self.started = []  # (port, daemon)
        self.lock = threading.Lock()

    def __len__(self):
        return len(self.started)

    def serve(self, port, shared):
        """The port of the daemon that stands in for a server on this port; 0: any."""
        with self.lock:
            if port and shared and port in dict(self.started):
                return port
            daemon = Daemon(port=port or None).start()
            self.started.append((daemon.address[1], daemon))
            return daemon.address[1]

    def stop_since(self, count):
        """Stops all but the first `count` daemons. Returns [(whether it had ended by itself, its log)]."""
        stopped = []
        with self.lock:
            while len(self.started) > count:
                daemon = self.started.pop()[1]
                stopped.append((daemon.stop() != 0, daemon.errors()))
                daemon.log.close()
        return stopped


def replace_servers(distributed, daemons):
    """Replaces the class in each module that has imported it. `distributed` is torch.distributed."""
    original = distributed.TCPStore

    class Stand(type):
        def __call__(cls, *args, **named):
            named = dict(zip(POSITIONS, args)) | named
            if named.pop("is_master", False):
                named["port"] = daemons.serve(named["port"], named.get("multi_tenant", False))
            return original(is_master=False, **named)

        def __instancecheck__(cls, thing):
            return isinstance(thing, original)

    class TCPStore(metaclass=Stand):
        __doc__ = inspect.getdoc(original)

    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is original:
                setattr(module, name, TCPStore)
