# SPDX-License-Identifier: Apache-2.0
"""How long this machine has held up a process that does what a Redis does: waits briefly, then syncs a file."""
import os
import tempfile
import threading
import time

PAUSE = 0.02
USUAL = 0.03  # a pause and a sync on an idle machine


class HeldUp:
    """Counts while it is used as a context manager. What a test allows the product is then a time on an idle
    machine plus `seconds`. The file is in `folder`, or if that is None in the system's folder for such files."""

    def __init__(self, folder):
        self.seconds = 0.0
        self._file = tempfile.TemporaryFile(dir=folder)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._end.is_set():
            began = time.monotonic()
            time.sleep(PAUSE)
            self._file.write(b"x")
            self._file.flush()
            os.fdatasync(self._file.fileno())
            self.seconds += max(0, time.monotonic() - began - USUAL)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._thread.join()
        self._file.close()
