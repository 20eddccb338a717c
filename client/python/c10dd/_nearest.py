# SPDX-License-Identifier: Apache-2.0
"""Finds the known word that is most similar to a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns `, did you mean "..."?` for an error text, or "" if no known word is similar."""
    found = difflib.get_close_matches(word, list(known), n=1)
    return f', did you mean "{found[0]}"?' if found else ""
