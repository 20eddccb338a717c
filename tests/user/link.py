# SPDX-License-Identifier: Apache-2.0
"""The network between one trainer and its daemon: a TCP proxy that can be cut and mended."""
import selectors
import socket
import threading


class Link(threading.Thread):
    """Passes connections on to `target`, from start() until close()."""

    def __init__(self, target):
        super().__init__(daemon=True)
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.state = "open"  # "cut": connections end, new ones too; "silent": nothing passes
        self.ends = {}  # socket: the other end

    def close(self):
        self.state = "closed"
        self.join()

    def run(self):
        while self.state != "closed":
            if self.state == "silent":
                threading.Event().wait(0.02)
                continue
            with selectors.DefaultSelector() as ready:
                for one in [self.listener, *self.ends]:
                    ready.register(one, selectors.EVENT_READ)
                for key, _ in ready.select(0.02):
                    self.serve(key.fileobj)
            if self.state == "cut":
                self.drop_all()
        self.drop_all()
        self.listener.close()

    def serve(self, ready):
        if ready is self.listener:
            self.accept()
        elif ready in self.ends:  # its other end may have dropped it just now
            self.pass_on(ready)

    def accept(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.target, timeout=5)
        except OSError:  # the daemon is down
            near.close()
            return
        self.ends[near], self.ends[far] = far, near

    def pass_on(self, source):
        try:
            data = source.recv(65536)
            if data:
                self.ends[source].sendall(data)
                return
        except OSError:
            pass
        for end in (self.ends.pop(source), source):
            self.ends.pop(end, None)
            end.close()

    def drop_all(self):
        for end in self.ends:
            end.close()
        self.ends.clear()
