# SPDX-License-Identifier: Apache-2.0
"""Several daemons that share one Redis server, one of which serves the job of the demo."""
import json
import socket
import time
import urllib.error
import urllib.request

from processes import Failed

PATIENCE = 30  # seconds until a daemon serves the job


def redis(engine, *words):
    """The reply of Redis to a command whose reply is a string; empty if there is none."""
    host, port = engine.removeprefix("redis://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(b"*%d\r\n" % len(words) +
                     b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
        with link.makefile("rb") as stream:
            size = int(stream.readline()[1:])
            return stream.read(max(size, 0)).decode()


class Fleet:
    """Looks like the one daemon of the demo. Its owner of the job is killed, and another one takes the
    job over."""

    what = "the fleet"
    # Longer than the default, so that both ranks have come to the end of their epoch meanwhile.
    OPTIONS = ("--lease", "5")

    def __init__(self, daemons, engine, job, say):
        self.daemons = daemons
        self.engine = engine
        self.job = job
        self.say = say
        self.killed_at = None
        self.away = 0.0  # seconds in all
        self.killed = ""
        self.outages_max = len(daemons) - 1

    @property
    def addresses(self):
        return ",".join(daemon.address for daemon in self.daemons)

    @property
    def address(self):
        return self.owner()[0].address

    @property
    def down(self):
        return self.killed_at is not None

    def start(self):
        for daemon in self.daemons:
            daemon.start()

    def owner(self):
        """The daemon that serves the job, and the epoch of its claim. Waits until there is one."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for daemon in self.daemons:
                if daemon.down:
                    continue
                with urllib.request.urlopen(f"http://{daemon.address}/v1/jobs", timeout=10) as reply:
                    jobs = json.load(reply)["jobs"]
                numbers = [job["number"] for job in jobs if job["job"] == self.job]
                if numbers:
                    name = redis(self.engine, "HGET", f"c10dd:{{{numbers[0]}}}:meta", "owner")
                    return daemon, int(name.split(":")[0])
            time.sleep(0.02)
        raise Failed(f"no daemon serves the job within {PATIENCE} s")

    def kill(self):
        owner, epoch = self.owner()
        self.killed_at = time.monotonic()
        owner.kill()
        self.killed = f"{owner.name} on {owner.address}, which owns the job in epoch {epoch},"

    def serve_again(self):
        owner, epoch = self.owner()
        self.away += time.monotonic() - self.killed_at
        self.killed_at = None
        self.say(f"== {owner.name} on {owner.address} has taken the job over, in epoch {epoch}")

    def metrics(self):
        return self.owner()[0].metrics()
