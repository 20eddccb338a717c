# SPDX-License-Identifier: Apache-2.0
"""Words that the project does not use any more, each with the word to use. tidy.py looks for them in
sources, scripts and pages, except those that tell the past. The last table of ARCHITECTURE.md lists
them for readers. Words of earlier releases are free again."""

NAMES = {
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
}

PHRASES = {
    # sentences that a reader has to decode
    r"is no (?:engine|durability|list of|whole number|number of)": "unknown, invalid, not a number",
    r"[Bb]ytes that are none": "malformed bytes",
    r"(?:as are|as is) the next\b": "repeat what the field means",
}


def pattern():
    return (r"(?<![\w/-])(?:" + "|".join(NAMES) + r")(?!\w)|" + "|".join(PHRASES))
