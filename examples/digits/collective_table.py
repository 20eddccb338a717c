# SPDX-License-Identifier: Apache-2.0
"""Makes a table of the latency of collectives, from the daemon's /metrics."""

import re
from dataclasses import dataclass, field

SAMPLE = re.compile(r"^(?P<name>[a-z0-9_]+)\{(?P<labels>.*)\} (?P<value>\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
DURATION = "c10dd_collective_duration_seconds"
PAYLOAD = "c10dd_collective_payload_bytes_total"


@dataclass
class Collective:
    """One series: the histogram of its durations, in seconds, and its payload."""

    bounds: list = field(default_factory=list)  # (upper bound in s, count up to it), ascending
    seconds: float = 0
    count: int = 0
    payload_bytes: float = 0

    def quantile(self, q):
        """Returns the quantile as histogram_quantile() of Prometheus does: by linear interpolation
        in the bucket that contains it. Of the last bucket, which is unbounded, the lower bound."""
        wanted = q * self.count
        lower = below = 0
        for bound, count in self.bounds:
            if count >= wanted and count > below:
                if bound == float("inf"):
                    return lower
                return lower + (bound - lower) * (wanted - below) / (count - below)
            lower, below = bound, count
        return lower


def read_collectives(metrics, train_job):
    """Returns {(process_group, collective, backend): Collective} of one job."""
    found = {}
    for line in metrics.splitlines():
        sample = SAMPLE.match(line)
        if not sample or not sample["name"].startswith((DURATION, PAYLOAD)):
            continue
        labels = dict(LABEL.findall(sample["labels"]))
        if labels["train_job"] != train_job:
            continue
        key = (labels["process_group"], labels["collective"], labels["backend"])
        one = found.setdefault(key, Collective())
        value = float(sample["value"])
        if sample["name"] == DURATION + "_bucket":
            one.bounds.append((float(labels["le"]), value))
        elif sample["name"] == DURATION + "_sum":
            one.seconds = value
        elif sample["name"] == DURATION + "_count":
            one.count = int(value)
        elif sample["name"] == PAYLOAD:
            one.payload_bytes = value
    for one in found.values():
        one.bounds.sort()
    return found


def with_unit(value, units):
    """Returns the value with three digits, in the largest unit in which it is at least 1."""
    for factor, unit in units:
        if value >= factor:
            break
    return f"{value / factor:.3g} {unit}"


SECONDS = [(1, "s"), (1e-3, "ms"), (1e-6, "us")]
BYTES = [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1, "B/s")]


def table(collectives):
    """Returns the lines of the table, with a header."""
    rows = [("process_group", "collective", "backend", "count", "p50", "p99", "bytes/s")]
    for key, one in sorted(collectives.items()):
        rate = one.payload_bytes / one.seconds if one.seconds else 0
        rows.append((*key, str(one.count), with_unit(one.quantile(0.5), SECONDS),
                     with_unit(one.quantile(0.99), SECONDS), with_unit(rate, BYTES)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) if at < 3 else cell.rjust(width)
                      for at, (cell, width) in enumerate(zip(row, widths))) for row in rows]
