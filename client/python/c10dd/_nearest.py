# SPDX-License-Identifier: Apache-2.0
"""Names the word that somebody probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns a part of an error text, or an empty one if no known word is similar."""
    found = difflib.get_close_matches(word, list(known), n=1)
    return f', did you mean "{found[0]}"?' if found else ""
