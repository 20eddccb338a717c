# SPDX-License-Identifier: Apache-2.0
"""The measured figures of the pages, each with its row of docs/benchmarks.md, which it must equal."""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import tidy

BENCHMARKS = "docs/benchmarks.md"


@dataclass(frozen=True)
class Figure:
    """A figure of a page, and its row: each pattern has one group and matches once. The page may
    round the figure."""

    page: str
    pattern: str
    row: str


DEATH = r"\| death of one of 1,000 members.*?\| (\S+) s; \S+ s; \S+ s \|"
DEATH_P99 = r"\| death of one of 1,000 members.*?\| \S+ s; (\S+) s; \S+ s \|"
DEATH_WORST = r"\| death of one of 1,000 members.*?\| \S+ s; \S+ s; (\S+) s \|"
SILENCE = r"\| silence of one of 1,000 members.*?\| (\S+) s; \S+ s \|"
SILENCE_WORST = r"\| silence of one of 1,000 members.*?\| \S+ s; (\S+) s \|"
TAKEOVER = r"\| 2 daemons on one Redis, SIGKILL.*?\| (\S+) s; \S+ s; \S+ s \|"
TAKEOVER_P99 = r"\| 2 daemons on one Redis, SIGKILL.*?\| \S+ s; (\S+) s; \S+ s \|"

FIGURES = [
    Figure("README.md", r"About (\S+) s later", DEATH_WORST),
    Figure("README.md", r"\((\S+) s if its machine falls silent\)", SILENCE_WORST),
    Figure("README.md", r"Redis serves its clients after (\S+) s", TAKEOVER),
    Figure("README.md", r"Redis serves its clients after \S+ s \(p99 (\S+) s;", TAKEOVER_P99),
    Figure("README.md", r"\| keeps nothing \| (\S+) \(\S+ with shared connections\)",
           r"\| durable set, 100 x 1: rate of etcd over c10dd;.*?\| (\S+);"),
    Figure("README.md", r"\| keeps nothing \| \S+ \((\S+) with shared connections\)",
           r"\| durable set, 100 x 1: rate of etcd over c10dd;.*?\| \S+; (\S+) \|"),
    Figure("README.md", r"\| (\S+) \(`appendfsync always`\)",
           r"\| durable set, 100 x 1: rate of Redis \(`always`\) over c10dd \| (\S+) \|"),
    Figure("docs/guarantees.md", r"`kill -9` (\S+) s \(p50\)", DEATH),
    Figure("docs/guarantees.md", r"`kill -9` \S+ s \(p50\), (\S+) s \(p99\)", DEATH_P99),
    Figure("docs/guarantees.md", r"silence (\S+) s \(p50\)", SILENCE),
    Figure("docs/guarantees.md", r"silence \S+ s \(p50\), (\S+) s \(worst\)", SILENCE_WORST),
    Figure("docs/guarantees.md", r"takeover, which took (\S+) s \(p50\)", TAKEOVER),
    Figure("docs/guarantees.md", r"takeover, which took \S+ s \(p50\) and (\S+) s \(p99\)", TAKEOVER_P99),
]


def check_figures(files):
    rows = files.get(BENCHMARKS, "")
    for figure in FIGURES:
        text = files.get(figure.page)
        if text is None:
            continue
        shown, measured = (list(re.finditer(pattern, body)) for pattern, body in
                           ((figure.pattern, text), (figure.row, rows)))
        for matches, page, pattern in ((shown, figure.page, figure.pattern),
                                       (measured, BENCHMARKS, figure.row)):
            if len(matches) != 1:
                yield page, 1, f"figure /{pattern}/ is found {len(matches)} times, must be once"
        if len(shown) != 1 or len(measured) != 1:
            continue
        value, row = Decimal(shown[0][1]), Decimal(measured[0][1])
        if row.quantize(value, ROUND_HALF_UP) != value:
            line = tidy.line_of(rows, measured[0].start(1))
            yield (figure.page, tidy.line_of(text, shown[0].start(1)),
                   f"figure {value}: {BENCHMARKS}:{line} has {row}")
