# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and a server: a long way, or one that is cut."""
import contextlib
import socket
import threading
import time


class Relay:
    """Passes bytes on to a port of this machine, `delay` seconds later, until cut() is called; then they get
    nowhere."""

    def __init__(self, port, delay=0.0):
        self.to = port
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_cut = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                other = socket.create_connection(("127.0.0.1", self.to))
                for source, sink in ((one, other), (other, one)):
                    threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    def pump(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                if not self.is_cut:
                    sink.sendall(data)
            if not self.is_cut:
                sink.close()

    def cut(self):
        self.is_cut = True

    def close(self):
        self.listener.close()
