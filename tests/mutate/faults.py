# SPDX-License-Identifier: Apache-2.0
"""The single faults that mutate.py can plant in a line of C++. Each is the line after a plausible
mistake. mutate.py skips a fault that does not compile, so the rules here need no types."""

import re

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//.*|\'(?:[^\'\\]|\\.)+\'')
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
COMPARISON = re.compile(r"(?<=\s)(<=|>=|==|!=|<|>|&&|\|\|)(?=\s)")
NUMBER = re.compile(r"(?<![\w.'])(\d[\d']*)(?![\w.'])")
RESET = re.compile(r"""^\s*(?:[\w.\->\[\]()]+(?:\.|->)(?:clear|reset|erase|cancel)\(.*\)
                        |[\w.\->\[\]]+\ =\ (?:\{\}|false|true|0|nullptr|std::nullopt)
                        |(?:\+\+|--)[\w.\->]+);$""", re.VERBOSE)
CALL = re.compile(r"(?!return\b|delete\b|throw\b|co_|if\b|for\b|while\b)(?:[\w:]+(?:\.|->))*[\w:]+\(.*\);$")
NOTIFICATION = re.compile(r"\b(?:notify_one|notify_all|wake|signal|post|flush|\w*changed)\(")
CONDITION = re.compile(r"^\s*(?:\} else )?(?:if|while) \(")
ERROR_PATH = re.compile(r"^\s*if \(.*\) (?:return\b.*|throw\b.*|co_return\b.*|continue|break);$")
EXCHANGE = re.compile(r"std::exchange\((\w+(?:(?:\.|->)\w+)*), [^()]*\)")
STATEMENT = re.compile(r"^\s*(?:if|for|while|return|const|auto|\w)[^{}]*;$")
VALUE = r"\w+(?:(?:\.|->)\w+)*"
ARGUMENTS = re.compile(rf"[(,]\s*({VALUE}), ({VALUE})(?=[,)])")
PAIRS = {"first": "second", "begin": "end", "min": "max", "front": "back", "own": "other"}
WORD = re.compile(r"\b(" + "|".join([*PAIRS, *PAIRS.values()]) + r")\b")
PAIRS |= {other: one for one, other in PAIRS.items()}


def code_of(line):
    """Returns the line with spaces in place of strings, characters and comments."""
    return TOKEN.sub(lambda match: " " * len(match[0]), line)


def replaced(line, match, text, group=0):
    return line[:match.start(group)] + text + line[match.end(group):]


def end_of_condition(code):
    """Returns where the condition of an `if (` or `while (` begins and ends, or None if it goes on in
    the next line, or declares a variable."""
    match = CONDITION.match(code)
    if not match:
        return None
    depth = 1
    for at in range(match.end(), len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if depth == 0:
            inside = code[match.end():at]
            declares = ";" in inside or re.search(r"[^=!<>]=[^=]", inside)
            return None if declares else (match.end(), at)
    return None


def control_faults(line, code):
    """Faults of conditions, calls and returns."""
    found = []
    indent = line[:len(line) - len(line.lstrip())]
    condition = end_of_condition(code)
    body = indent
    if condition:
        begin, end = condition
        found.append(("condition reversed", f"{line[:begin]}!({line[begin:end]}){line[end:]}"))
        body = line[:end + 1] + " "
    if ERROR_PATH.match(code):
        found.append(("error path left out", indent + ";"))
    elif RESET.match(code):
        found.append(("reset left out", indent + ";"))
    elif CALL.match(code[len(body):]):
        notifies = NOTIFICATION.search(code, len(body))
        found.append(("notification left out" if notifies else "call left out", body.rstrip(" ") + ";"
                      if condition else indent + ";"))
    if STATEMENT.match(code) and indent:
        found.append(("early return", f"{indent}if (true) return; {line.lstrip()}"))
        found.append(("early return", f"{indent}if (true) return {{}}; {line.lstrip()}"))
    return found


def faults_of(line):
    """Returns all faults of this line as (kind, new line)."""
    code = code_of(line).rstrip()
    found = []
    if line.lstrip().startswith(("#", "template", "static_assert", "using")):
        return found
    for match in COMPARISON.finditer(code):
        found.append(("comparison", replaced(line, match, SWAPS[match[1]])))
    for match in NUMBER.finditer(code):
        value = int(match[1].replace("'", ""))
        found.append(("constant", replaced(line, match, str(value + 1))))
        if value > 0:
            found.append(("constant", replaced(line, match, str(value - 1))))
    for match in ARGUMENTS.finditer(code):
        if match[1] != match[2] and not match[1].isdigit() and not match[2].isdigit():
            swapped = line[:match.start(1)] + f"{match[2]}, {match[1]}" + line[match.end(2):]
            found.append(("wrong variable", swapped))
    for match in WORD.finditer(code):
        found.append(("wrong variable", replaced(line, match, PAIRS[match[1]])))
    for match in EXCHANGE.finditer(code):
        found.append(("reset left out", replaced(line, match, match[1])))
    return found + control_faults(line, code)
