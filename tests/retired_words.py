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
    # a daemon that passes a TCPStore connection on to the owner of its job
    r"\w*Door(?!way)\w*|doors?_?|door_\w+|\w+_doors?": "relay",
    r"Talk|TcpStoreTalk|tcpstore_talk|talk_": "TcpStoreDialogue",
    r"\w*Warden|warden_?": "OrphanKiller",
    r"\w*Crew\w*|crew_?|crew_\w+|\w+_crew": "workers",
    r"Seat|Seats|seats?_?|SeatInBarrier|known_seat": "RankClaim",
    r"Whereabouts\w*|whereabouts": "run owners",
    r"\w*Witness|no_witness|witness_?": "precondition",
    r"Judgement|judgement": "ClaimDecision, or a violation in the simulator",
    r"(?<!:)[pP]ulse|pulse_ignored|\w*_pulse_\w+|pulses_": "heartbeat count",
    r"Look": "WaitContext",
    r"Maybe(?! [a-z])": "OptionalReply",
    r"Moment": "ChangeContext",
    r"Findings?": "AuditResult, or FoundFault in histories",
    r"seal|sealed|seals": "append_reply_rows",
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
