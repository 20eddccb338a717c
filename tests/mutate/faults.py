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
CALL = re.compile(r"^\s*(?!return\b|delete\b|throw\b|co_)(?:[\w:]+(?:\.|->))*[\w:]+\(.*\);$")
EXCHANGE = re.compile(r"std::exchange\((\w+(?:(?:\.|->)\w+)*), [^()]*\)")
STATEMENT = re.compile(r"^\s*(?:if|for|while|return|const|auto|\w)[^{}]*;$")


def code_of(line):
    """Returns the line with spaces in place of strings, characters and comments."""
    return TOKEN.sub(lambda match: " " * len(match[0]), line)


def replaced(line, match, text, group=0):
    return line[:match.start(group)] + text + line[match.end(group):]


def faults_of(line):
    """Returns all faults of this line as (kind, new line)."""
    code = code_of(line)
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
    indent = line[:len(line) - len(line.lstrip())]
    stripped = code.rstrip()
    if RESET.match(stripped):
        found.append(("reset removed", indent + ";"))
    elif CALL.match(stripped):
        found.append(("call removed", indent + ";"))
    for match in EXCHANGE.finditer(code):
        found.append(("reset removed", replaced(line, match, match[1])))
    if STATEMENT.match(stripped) and indent:
        found.append(("early return", f"{indent}if (true) return; {line.lstrip()}"))
        found.append(("early return", f"{indent}if (true) return {{}}; {line.lstrip()}"))
    return found
