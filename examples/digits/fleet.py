# SPDX-License-Identifier: Apache-2.0
"""Several daemons that share one Redis server, one of which serves the job of the demo."""
import json
import time
import urllib.error
import urllib.request

from processes import Failed

PATIENCE = 30  # seconds until a daemon serves the job


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
                for job in jobs:
                    owner = job.get("owner")
                    if job["job"] == self.job and owner and owner["here"]:
                        return daemon, owner["epoch"]
            time.sleep(0.02)
        raise Failed(f"no daemon has served the job within {PATIENCE} s")

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
