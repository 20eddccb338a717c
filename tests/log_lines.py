# SPDX-License-Identifier: Apache-2.0
"""The lines of the daemon's log that no client can cause, each with what causes it. All others are written by
log_caused() (daemon/shard/caused_log.h), which limits them for each principal. tidy.py looks at each call."""
import re

START, FILES, ENGINE, FLEET = "a start or an end", "the operator's files", "the engine", "another daemon"
UNCAUSED = {
    "serving": START, "stopped": START, "draining": START, "stopped_unfinished": START,
    "listens_on_loopback_only": START, "advertises_loopback": START,
    "access_reloaded": FILES, "certificate_lacks_host": FILES, "key_left_out": FILES,
    "former_ca": "at most one line a minute, for all principals",
    "disk_room": "the disk; a timer looks", "ballast_given_up": "the disk; once",
    "engine_warning": ENGINE, "state_rolled_back": ENGINE, "state_damaged": ENGINE, "commit_stuck": ENGINE,
    "commit_went_on": ENGINE, "engine_lost": ENGINE, "engine_reopened": ENGINE, "engine_reopen_failed": ENGINE,
    "mark_given_up": ENGINE, "mark_not_written": ENGINE, "durability_strong": ENGINE, "durability_weak": ENGINE,
    "fleet_wait": FLEET, "fleet_joined": FLEET, "lease_over": FLEET, "lease_renewed": FLEET, "heartbeat_failed": FLEET,
    "rolled_back": FLEET, "rollback_accepted": FLEET, "daemon_silent": FLEET,
    "daemon_heard": FLEET, "job_taken_over": FLEET,
    "log_lines_skipped": "a line that is written",
}

OF_DAEMON = re.compile(r"daemon/.*\.(?:cc|h)")
WRITERS = ("daemon/shard/log_line.h", "daemon/shard/log_line.cc", "daemon/shard/caused_log.h")
CALL = re.compile(r"\blog_(?:info|warn|error|as)\s*\(")
EVENT = re.compile(r'"event=([\w{}]+)')
MESSAGE = ("a log line that a client may cause; write it with log_caused(), or say in tests/log_lines.py why none "
           "can cause it")


def offences(path, text):
    """The lines of a source that write such a line otherwise, each with a message."""
    if not OF_DAEMON.fullmatch(path) or path in WRITERS:
        return
    code = re.sub(r"//[^\n]*", "", text)
    for call in CALL.finditer(code):
        end = code.find(";", call.end())
        event = EVENT.search(code, call.end(), end if end > 0 else len(code))
        if event is None or event.group(1) not in UNCAUSED:
            yield code.count("\n", 0, call.start()) + 1, MESSAGE
