# SPDX-License-Identifier: Apache-2.0
"""Words that the project does not use any more, each with the word to use. tidy.py looks for them in
sources, scripts and pages, but for those that tell the past. ARCHITECTURE.md lists them for readers."""

NAMES = {
    # a barrier with data is still a barrier
    r"\w*(?:Meeting|meeting)\w*": "barrier",
    # how a group stands, and waiting until that changes
    r"GroupNews|group_news|make_news": "status",
    r"FollowGroup|follow_group": "WatchGroup, watch_group",
    # a round is a decision of a group
    r"RoundPace|RoundResult|RoundCommitted|round_in_flight_": "commit batch",
    # an engine claims a job; an item is delivered, a rank is requested
    r"claimed_rank|Dedup::claim": "requested_rank, delivery",
    r"ChainWalk|chain_key|kChainTag": "job head",
    r"MarkSlot|NoticeMark|mark_slot": "high-water mark, notice receipt",
    r"Answer|AnswerSink|answer_sink|answers\.h": "reply",
    r"House|Farewells?|Casualty|casualties|Greeting|Party": "the plain word, see ARCHITECTURE.md",
    r"hopeless|look_again|turn_away|stand_aside|vacate|vouched|beat_every|left_out":
        "the plain word, see ARCHITECTURE.md",
}

PHRASES = {
    # sentences that a reader has to decode
    r"is no (?:engine|durability|list of|whole number|number of)": "unknown, invalid, not a number",
    r"[Bb]ytes that are none": "malformed bytes",
    r"(?:as are|as is) the next\b": "repeat what the field means",
}


def pattern():
    return (r"(?<![\w/-])(?:" + "|".join(NAMES) + r")(?!\w)|" + "|".join(PHRASES))
