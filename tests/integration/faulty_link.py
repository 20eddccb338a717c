# SPDX-License-Identifier: Apache-2.0
"""A link between a client and a server: a long way, or one that is cut."""
import contextlib
import socket
import threading
import time


class FaultyLink:
    """Passes bytes on to a port of this machine, `delay` seconds later, until cut() is called; then they get
    nowhere."""

    def __init__(self, port, delay=0.0):
        self.to = port
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_cut = False
        self.pairs = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                other = socket.create_connection(("127.0.0.1", self.to))
                self.pairs.append((one, other))
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

    def reset(self):
        """Ends all connections at once, wherever their bytes are. New ones are accepted."""
        for pair in self.pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()

    def close(self):
        self.listener.close()
