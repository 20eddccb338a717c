# SPDX-License-Identifier: Apache-2.0
"""Trains for some minutes while the daemon is killed twice, and checks that it accuses nobody. To be run beside a build,
so that ranks are late for no fault of theirs.

    C10DD_BIN=build/bin quiet.py MINUTES

4 ranks train with a fixed size, and 4 others elastically. Prints each diagnosis that the daemon has logged: on a busy
machine ranks wait for each other for a moment. Exit code 1 if a job was called stuck, or waiting for over 10 s, or if a rank
has ended."""
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from daemon import BIN, Daemon, reserve_port  # noqa: E402

RANKS = 4
AWAY = 3  # seconds between the death of the daemon and its next start


def start_ranks(address, log):
    """The processes of both jobs, by job."""
    jobs = {}
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/digits/data/digits.csv")
    for job, words in (("fixed", ["--world-size", str(RANKS)]), ("elastic", ["--elastic", f"{RANKS}:{RANKS}"])):
        for rank in range(RANKS):
            command = [os.path.join(BIN, "digits"), "--data", data, "--epochs", "1000000", "--url", f"c10dd://{address}/{job}", *words]
            jobs.setdefault(job, []).append(subprocess.Popen(
                command + (["--rank", str(rank)] if job == "fixed" else []), stdout=log, stderr=log,
                env={**os.environ, "C10DD_FLIGHT": "off"}))
    return jobs


def main():
    minutes = float(sys.argv[1])
    said, wrong = [], []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
        daemon = Daemon(engine=f"rocksdb:{folder}/state", port=reserve_port())
        daemon.start()
        jobs = start_ranks("%s:%d" % daemon.address, log)
        begin = time.monotonic()
        kills = [minutes * 60 / 3, minutes * 60 * 2 / 3]
        while time.monotonic() - begin < minutes * 60 and not wrong:
            time.sleep(0.5)
            wrong = [f"rank {rank} of {job} ended with {one.returncode}" for job, ranks in jobs.items()
                     for rank, one in enumerate(ranks) if one.poll() is not None]
            if kills and time.monotonic() - begin > kills[0]:
                kills.pop(0)
                daemon.kill()
                time.sleep(AWAY)
                daemon.start()
        said = [line for line in daemon.errors().splitlines() if " event=diagnosis" in line]
        for one in (one for ranks in jobs.values() for one in ranks):
            one.kill()
            one.wait()
        daemon.stop()
        log.seek(0)
        tail = log.read().decode(errors="replace").splitlines()
        steps = [line for line in tail if "epoch" in line]
    alarms = [line for line in said if " state=stuck " in line or float(re.search(r" seconds=([0-9.]+)", line)[1]) > 10]
    print("\n".join(said + wrong + (tail[-5:] if wrong else [])))
    print(f"{minutes:g} minutes, {len(alarms)} alarms, {len(wrong)} ranks ended; last: {steps[-1] if steps else '-'}")
    return 1 if alarms or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
