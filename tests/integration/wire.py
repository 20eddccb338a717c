# SPDX-License-Identifier: Apache-2.0
"""A second, independent reading of protocol/PROTOCOL.md: just enough of the native protocol to
send the daemon right and wrong frames."""
import os
import socket
import ssl
import struct

MAGIC = b"\xc1C10D"
HELLO, PING, GOODBYE, SET, GET, WAIT, ADD, REMOVE = 1, 2, 3, 16, 17, 18, 20, 22
REMOVE_PREFIX, QUEUE_PUSH, BARRIER, EXCHANGE, JOIN, REPORT = 28, 32, 48, 49, 50, 64
CODES = ["ok", "malformed", "unknown_op", "version_unsupported", "too_large", "invalid_argument",
         "not_found", "timed_out", "quota_exceeded", "wrong_type", "out_of_range", "size_mismatch",
         "rank_taken", "sequence_reused", "window_exceeded", "session_unknown",
         "session_superseded", "state_rolled_back", "stale_generation", "outcome_unknown",
         "not_owner", "unavailable", "aborted", "permission_denied", "unsupported", "closed",
         "internal", "session_expired", "compacted", "disk_full",
         "session_replaced", "forked", "unauthenticated", "work_finished"]


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(value)) + value


def frame(op, body=b"", channel=1, sequence=0, acked_below=0, length=None):
    length = len(body) if length is None else length
    return struct.pack("<IBBHIQQ", length, op, 0, 0, channel, sequence, acked_below) + body


def hello_body(session=None, job="test", run="", version=(1, 1), host="here", rank=-1,
               stamp=(0, 0, 0), number=None, credential="", labels=()):
    session = session or os.urandom(16)
    return (struct.pack("<BBQ", *version, 0) + session + text(job) + text(run) + text(credential) +
            text(host) + struct.pack("<Qq", os.getpid(), rank) + struct.pack("<I", len(labels)) +
            b"".join(text(name) + text(value) for name, value in labels) +
            struct.pack("<QQQ", *stamp) +
            (b"" if number is None else struct.pack("<qQ", 0, number)))


class Reply:
    """One frame from the daemon; code is the failure's name, or "ok"."""

    def __init__(self, header, body):
        (_, self.op, self.kind, _, self.channel, self.sequence, *self.stamp) = header
        self.body = body
        self.code, self.detail = "ok", ""
        if self.kind == 1:
            self.code = CODES[body[0]]
            size, = struct.unpack_from("<I", body, 1)
            self.detail = body[5:5 + size].decode()

    def __repr__(self):
        return f"<{self.code} {self.detail!r}>"


class Wire:
    """One connection. With `tls`, a context of ssl, it is encrypted; `source` is the address that it comes from."""

    def __init__(self, address, magic=MAGIC, tls=None, source=None):
        self.socket = socket.create_connection(address, timeout=20, **({"source_address": (source, 0)} if source else {}))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address[0])
        self.buffer = b""
        self.sequence = 0
        self.send(magic)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        """The next frame, or None at the end of the connection."""
        size = 44
        while True:
            if len(self.buffer) >= size:
                header = struct.unpack_from("<IBBHIQQQQ", self.buffer)
                size = 44 + header[0]
                if len(self.buffer) >= size:
                    body, self.buffer = self.buffer[44:size], self.buffer[size:]
                    return Reply(header, body)
            try:
                data = self.socket.recv(1 << 20)
            except (ConnectionResetError, ssl.SSLEOFError):
                return None
            if not data:
                return None
            self.buffer += data

    def hello(self, **options):
        self.send(frame(HELLO, hello_body(**options)))
        return self.reply()

    def call(self, op, body, **options):
        self.sequence += 1
        options.setdefault("sequence", self.sequence)
        self.send(frame(op, body, **options))
        return self.reply()

    def set(self, key, value, **options):
        return self.call(SET, text(key) + text(value), **options)

    def set_many(self, keys, window=500):
        """Sets key1 to keyN to 64 bytes each, some at a time; the answers that are not ok."""
        value = text("v" * 64)
        failed = []
        for first in range(1, keys + 1, window):
            numbers = range(first, min(first + window, keys + 1))
            self.send(b"".join(frame(SET, text(f"key{n}") + value, sequence=n, acked_below=first)
                               for n in numbers))
            failed += [reply for reply in (self.reply() for _ in numbers) if reply.code != "ok"]
        return failed

    def get(self, key, timeout_ns=0, **options):
        return self.call(GET, text(key) + struct.pack("<q", timeout_ns), **options)

    def add(self, key, delta, **options):
        return self.call(ADD, text(key) + struct.pack("<q", delta), **options)

    def remove(self, key, **options):
        return self.call(REMOVE, text(key), **options)

    def remove_prefix(self, prefix, **options):
        return self.call(REMOVE_PREFIX, text(prefix), **options)

    def barrier(self, group, rank, world_size, sequence=0, timeout_ns=0):
        return self.call(BARRIER, text(group) + struct.pack("<QQIIq", 0, sequence, rank, world_size,
                                                             timeout_ns))

    def exchange(self, group, rank, world_size, parts, shape=0, timeout_ns=0):
        body = text(group) + struct.pack("<QQIIBI", 0, 0, rank, world_size, shape, 0)
        body += struct.pack("<I", len(parts)) + b"".join(text(p) for p in parts)
        return self.call(EXCHANGE, body + struct.pack("<qQ", timeout_ns, 0))

    def join(self, group, size, ttl_ns, timeout_ns):
        """A place in a group of `size` members; what is not said of the caller is the default."""
        policy = struct.pack("<IIqqq", size, size, 0, ttl_ns, 0)
        body = text(group) + struct.pack("<Q", 0) + text(policy) + struct.pack("<qBi", -1, 0, -1)
        body += text("") + text("") + struct.pack("<IQBq", 0, 0, 0, timeout_ns)
        return self.call(JOIN, body)

    def report(self, number, labels, totals, buckets, fine, queue, in_flight):
        """Reports one collective's totals: labels are process group, collective and backend; totals
        are count, failures, payload bytes, bus bytes and nanoseconds; queue is nanoseconds and
        buckets."""
        def counts(values):
            return struct.pack(f"<I{len(values)}Q", len(values), *values)
        row = b"".join(text(label) for label in labels) + struct.pack("<5Q", *totals)
        row += counts(buckets) + counts(fine)
        row += struct.pack("<Q", queue[0]) + counts(queue[1]) + struct.pack("<Q", in_flight)
        return self.call(REPORT, struct.pack("<QI", number, 1) + text(row))

    def close(self):
        self.socket.close()
