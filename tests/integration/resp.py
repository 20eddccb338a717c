# SPDX-License-Identifier: Apache-2.0
"""Runs single commands of Redis, without a client library."""
import contextlib
import socket


def command(port, *words):
    """The reply to a command: an int, bytes, None, a list of these, or a RuntimeError that is raised."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as link:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        link.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        with link.makefile("rb") as stream:
            return read(stream)


def read(stream):
    line = stream.readline().rstrip(b"\r\n")
    kind, rest = line[:1], line[1:]
    if kind == b"-":
        raise RuntimeError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        size = int(rest)
        return None if size < 0 else stream.read(size + 2)[:-2]
    if kind == b"*":
        return [read(stream) for _ in range(int(rest))]
    return rest
