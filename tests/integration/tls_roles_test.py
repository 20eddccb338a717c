#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each role may do over TLS: every operation of the native protocol, and a table of routes and operations by hand
for tokens of the CA, tokens of a site and client certificates."""
import glob
import json
import os
import re
import shutil
import ssl
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from cluster import Cluster
from foreign import Foreign
from wire import HELLO, Wire, frame, hello_body, text

SOURCE = os.environ.get("C10DD_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(SOURCE, "tests/fixtures"))
from conversation import load  # noqa: E402

ROLES = ("viewer", "trainer", "admin")
MAY = {"viewer": ("observe",), "trainer": ("observe", "use", "join"), "admin": ("observe", "use", "join", "admin")}
REQUEST_HEADER = 28
MANY_YEARS = 4_000_000_000

GRANTS = """
[[issuer]]
name = "site"
issuer = "https://site"
audience = "c10dd"
jwks = "{jwks}"
"""
GRANT = """
[[grant]]
who = "{who}"
role = "{role}"
jobs = ["own*"]
"""

# Of the credentials, all but `root` are for the jobs "own*". Of the jobs "own" and "other" a session is connected all the
# time, so whoever may remove one hears that (409). A request of one word is an operation of the native protocol.
OPEN, CONFLICT, DENIED, NONE, NOBODY = 200, 409, 403, 404, 401
CELLS = [
    # credential, role, request, job, what comes of it
    ("own", "viewer", "get", "own", "ok"),
    ("own", "viewer", "set", "own", "permission_denied"),
    ("own", "viewer", "barrier", "own", "permission_denied"),
    ("own", "viewer", "GET /v1/jobs/{job}", "own", OPEN),
    ("own", "viewer", "GET /v1/jobs/{job}", "own-too", NONE),
    ("own", "viewer", "GET /v1/jobs/{job}", "other", DENIED),
    ("own", "viewer", "GET /v1/jobs/{job}", "absent", DENIED),
    ("own", "viewer", "DELETE /v1/jobs/{job}", "own", DENIED),
    ("own", "viewer", "DELETE /v1/jobs/{job}/runs/r", "own", DENIED),
    ("own", "viewer", "POST /v1/jobs/{job}/endpoints", "own", DENIED),
    ("own", "viewer", "GET /metrics", "", DENIED),
    ("own", "viewer", "GET /v1/jobs", "", OPEN),
    ("own", "trainer", "set", "own", "ok"),
    ("own", "trainer", "barrier", "own", "ok"),
    ("own", "trainer", "get", "other", "permission_denied"),
    ("own", "trainer", "get", "absent", "permission_denied"),
    ("own", "trainer", "POST /v1/jobs/{job}/endpoints", "own", OPEN),
    ("own", "trainer", "POST /v1/jobs/{job}/endpoints", "other", DENIED),
    ("own", "trainer", "POST /v1/jobs/{job}/endpoints", "absent", DENIED),
    ("own", "trainer", "DELETE /v1/jobs/{job}/runs/r", "own", NONE),
    ("own", "trainer", "DELETE /v1/jobs/{job}", "own", DENIED),
    ("own", "trainer", "POST /v1/jobs/{job}/move", "own", DENIED),
    ("own", "trainer", "GET /v1/daemons", "", DENIED),
    ("own", "admin", "DELETE /v1/jobs/{job}", "own", CONFLICT),
    ("own", "admin", "DELETE /v1/jobs/{job}", "other", DENIED),
    ("own", "admin", "DELETE /v1/jobs/{job}", "absent", DENIED),
    ("own", "admin", "GET /metrics", "", DENIED),
    ("own", "admin", "POST /v1/checkpoint", "", DENIED),
    ("own", "root", "GET /metrics", "", OPEN),
    ("own", "root", "GET /v1/daemons", "", OPEN),
    ("own", "root", "DELETE /v1/jobs/{job}", "other", CONFLICT),
    ("own", "root", "GET /v1/jobs/{job}", "absent", NONE),
    ("site", "viewer", "get", "own", "ok"),
    ("site", "viewer", "set", "own", "permission_denied"),
    ("site", "viewer", "GET /v1/jobs/{job}", "own", OPEN),
    ("site", "viewer", "GET /v1/jobs/{job}", "other", DENIED),
    ("site", "viewer", "DELETE /v1/jobs/{job}", "own", DENIED),
    ("site", "trainer", "set", "own", "ok"),
    ("site", "trainer", "set", "absent", "permission_denied"),
    ("site", "trainer", "POST /v1/jobs/{job}/endpoints", "own", OPEN),
    ("site", "admin", "DELETE /v1/jobs/{job}", "own", CONFLICT),
    ("site", "admin", "DELETE /v1/jobs/{job}", "other", DENIED),
    ("site", "stranger", "get", "own", "permission_denied"),
    ("site", "stranger", "GET /v1/jobs/{job}", "own", DENIED),
    ("site", "stranger", "GET /v1/jobs", "", DENIED),
    ("certificate", "viewer", "get", "own", "ok"),
    ("certificate", "viewer", "set", "own", "permission_denied"),
    ("certificate", "viewer", "GET /metrics", "", DENIED),
    ("certificate", "trainer", "barrier", "own", "ok"),
    ("certificate", "trainer", "get", "other", "permission_denied"),
    ("certificate", "trainer", "DELETE /v1/jobs/{job}", "own", DENIED),
    ("certificate", "admin", "DELETE /v1/jobs/{job}", "own", CONFLICT),
    ("certificate", "admin", "GET /v1/jobs/{job}", "other", DENIED),
    ("certificate", "stranger", "get", "own", "unauthenticated"),
    ("certificate", "stranger", "GET /v1/jobs/{job}", "own", NOBODY),
    ("nothing", "viewer", "get", "own", "unauthenticated"),
    ("nothing", "viewer", "GET /v1/jobs/{job}", "own", NOBODY),
    ("nothing", "viewer", "GET /metrics", "", NOBODY),
    ("nothing", "viewer", "GET /readyz", "", OPEN),
]
BODIES = {"endpoints": b'{"name": "a"}', "move": b'{"to": "127.0.0.1:9"}', "checkpoint": b'{"path": "/nowhere/at/all"}'}


def operations():
    """{name: (code, access)} of the table of operations, as the sources have it."""
    found = {}
    for path in glob.glob(os.path.join(SOURCE, "protocol/*_ops.h")):
        with open(path, encoding="utf-8") as file:
            for code, name, access in re.findall(r'OpInfo op\{\s*(\d+),\s*"(\w+)",\s*OpKind::\w+,\s*Access::(\w+)', file.read()):
                found[name] = int(code), access
    return found


def listed_operations():
    """How many operations protocol/ops.h has."""
    with open(os.path.join(SOURCE, "protocol/ops.h"), encoding="utf-8") as file:
        return len(re.search(r"AnyRequest =\s*std::variant<([^>]*)>", file.read())[1].split(","))


def requests():
    """{name: a body that the daemon can read}."""
    said = load(os.path.join(SOURCE, "tests/fixtures/conversation.txt"))
    bodies = {}
    for operation, request, _ in said["fill"]:
        bodies.setdefault(operation, request[REQUEST_HEADER:])
    return bodies


class Case(unittest.TestCase):
    def start(self, *options):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.cluster = Cluster(os.path.join(self.folder, "cluster"), *options)
        self.addCleanup(self.cluster.daemon.log.close)

    def serve(self):
        self.daemon = self.cluster.daemon.start()
        self.addCleanup(self.daemon.stop)

    def wire(self, token, job, context=None):
        """A connection, and what is said to its hello."""
        wire = Wire(self.daemon.address, tls=context or self.cluster.trust())
        self.addCleanup(wire.close)
        return wire, wire.hello(job=job, credential=token)

    def text_of(self, *token, **options):
        with open(self.cluster.token(*token, **options), encoding="ascii") as file:
            return file.read().strip()

    def make(self, *jobs):
        """Makes each of these jobs, with the token of an admin of all jobs."""
        for job in jobs:
            self.assertEqual("ok", self.wire(self.text_of("maker", role="admin"), job)[1].code)

    def jobs(self, root):
        status, body = self.cluster.http("/v1/jobs", root)
        self.assertEqual(200, status, body)
        return sorted(job["job"] for job in json.loads(body)["jobs"])


class Operations(Case):
    def setUp(self):
        self.start()
        self.serve()
        self.tokens = {role: self.text_of(role, "own*", role) for role in ROLES}
        self.root = self.cluster.token("root", role="admin")

    def test_each_operation_needs_the_role_that_its_table_says(self):
        table = operations()
        self.assertEqual(listed_operations(), len(table), "not all operations were found in the sources")
        bodies = {**requests(), "authenticate": None}
        self.assertEqual(set(table), set(bodies))
        self.make("own-viewer")
        for role, may in MAY.items():
            for name, (code, access) in sorted(table.items()):
                wire, welcome = self.wire(self.tokens[role], "own-" + role)
                self.assertEqual("ok", welcome.code, f"{role}: {welcome}")
                if code == HELLO:  # there is no session without one, so each role may open it
                    wire.close()
                    continue
                body = text(self.tokens[role]) if name == "authenticate" else bodies[name]
                reply = wire.call(code, body, **({"sequence": 0} if name in ("ping", "authenticate") else {}))
                self.assertEqual(access not in may, reply.code == "permission_denied", f"{role}, {name}: {reply}")
                self.assertNotIn(reply.code, ("malformed", "unknown_op", "unauthenticated", "too_large"),
                                 f"{role}, {name}: {reply}")
                if access not in may:
                    self.assertEqual(f"the token of this client does not allow {name} in this job; ask for one with a "
                                     "higher role", reply.detail)
                wire.close()
        wire, _ = self.wire(self.tokens["viewer"], "own-viewer")
        for prefix in (b"", b"m/"):
            reply = wire.call(26, text(prefix))
            self.assertEqual(("ok", bytes(8)), (reply.code, reply.body[:8]), "what was refused has changed nothing")

    def test_a_job_of_others_is_refused_in_the_same_words_whether_it_exists_or_not(self):
        with open(self.root, encoding="ascii") as file:
            root = file.read().strip()
        before = {role: self.wire(token, "vision")[1] for role, token in self.tokens.items()}
        self.assertEqual([], self.jobs(self.root), "a refused hello has made no job")
        self.assertEqual(404, self.cluster.http("/v1/jobs/vision", self.root)[0])
        self.assertEqual("ok", self.wire(root, "vision")[1].code)
        self.assertEqual(["vision"], self.jobs(self.root))
        for role, first in before.items():
            then = self.wire(self.tokens[role], "vision")[1]
            self.assertEqual(("permission_denied", then.code, then.detail), (first.code, first.code, first.detail))
            self.assertIn(f'"{role}" may do nothing in job "vision"', first.detail)
            self.assertEqual((first.body, first.kind, first.stamp), (then.body, then.kind, then.stamp))
        codes = [self.cluster.http(f"/v1/jobs/{job}", os.path.join(self.cluster.folder, "admin.token"), "DELETE")
                 for job in ("vision", "absent")]
        self.assertEqual(codes[0][0], codes[1][0])
        self.assertEqual(codes[0][1].replace("vision", "absent"), codes[1][1])
        self.assertEqual(["vision"], self.jobs(self.root))

    def test_a_viewer_makes_no_job(self):
        for job in ("own-1", "own-2"):
            welcome = self.wire(self.tokens["viewer"], job)[1]
            self.assertEqual(("not_found", f'job "{job}" does not exist, and a viewer cannot create it; connect after its '
                              "first trainer"), (welcome.code, welcome.detail))
        self.assertEqual([], self.jobs(self.root))
        self.make("own-1")
        self.assertEqual("ok", self.wire(self.tokens["viewer"], "own-1")[1].code)

    def test_a_second_channel_is_asked_on_its_own(self):
        self.make("own-2")
        wire, welcome = self.wire(self.tokens["trainer"], "own-1")
        self.assertEqual("ok", welcome.code)
        for job, credential, code in (("vision", self.tokens["trainer"], "permission_denied"), ("own-2", "", "unauthenticated"),
                                      ("own-2", self.tokens["viewer"], "ok")):
            wire.send(frame(HELLO, hello_body(job=job, credential=credential), channel=2))
            self.assertEqual(code, wire.reply().code)
        self.assertEqual("permission_denied", wire.call(16, text("k") + text("v"), channel=2, sequence=1).code)
        self.assertEqual("ok", wire.set("k", "v").code)
        self.assertEqual(["own-1", "own-2"], self.jobs(self.root))

    def test_a_shown_token_changes_what_a_session_may_do(self):
        self.make("own-1")
        wire, _ = self.wire(self.tokens["viewer"], "own-1")
        self.assertEqual("permission_denied", wire.set("k", "v").code)
        for token, code in ((self.text_of("foreign", "vision"), "permission_denied"), ("abc", "unauthenticated"),
                            (self.tokens["trainer"], "permission_denied"), (self.tokens["viewer"], "ok")):
            self.assertEqual(code, wire.call(69, text(token), sequence=0).code)
        self.assertEqual("permission_denied", wire.set("k", "x").code, "the session is still one of the viewer")

    def test_another_role_of_the_same_principal_needs_a_new_hello(self):
        self.make("own-1")
        reads, writes = (self.text_of("same", "own*", role, file=f"same-{role}.token") for role in ("viewer", "trainer"))
        wire, _ = self.wire(reads, "own-1")
        self.assertEqual("permission_denied", wire.set("k", "v").code)
        self.assertEqual("ok", wire.call(69, text(writes), sequence=0).code)
        self.assertEqual("session_unknown", wire.reply().code, "its role has changed")
        wire, welcome = self.wire(writes, "own-1")
        self.assertEqual("ok", welcome.code)
        self.assertEqual("ok", wire.set("k", "w").code)


class Table(Case):
    def setUp(self):
        grants = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(grants.close)
        self.start("--grants", grants.name)
        site = Foreign(os.path.join(self.folder, "site"))
        self.addCleanup(site.close)
        key = site.key("site", "ec")
        grants.write(GRANTS.format(jwks=site.jwks("site.json", k1=key)))
        cas = tuple(os.path.join(self.cluster.ca, "ca." + kind) for kind in ("crt", "key"))
        self.texts, self.contexts = {("nothing", "viewer"): ""}, {}
        for role in (*ROLES, "stranger"):
            if role != "stranger":
                self.texts["own", role] = self.text_of(role, "own*", role)
                for who in (f"site:{role}:*", f"cert:spiffe://site/{role}"):
                    grants.write(GRANT.format(who=who, role=role))
            claims = {"iss": "https://site", "aud": "c10dd", "sub": f"{role}:own", "exp": MANY_YEARS}
            self.texts["site", role] = site.token(key, claims, "ES256", "k1")
            self.contexts[role] = self.cluster.trust()
            self.contexts[role].load_cert_chain(*site.certificate(role, cas, [f"spiffe://site/{role}"]))
        grants.flush()
        self.texts["own", "root"] = self.text_of("root", role="admin")
        self.serve()
        for job in ("own", "other"):
            wire, welcome = self.wire(self.texts["own", "root"], job)
            self.assertEqual(("ok", "ok"), (welcome.code, wire.set("k", "v").code))

    def http(self, request, token, context):
        method, path = request.split()
        fields = {"Authorization": "Bearer " + token} if token else {}
        body = BODIES[path.rsplit("/", 1)[-1]] if method == "POST" else None
        if body:
            fields["Content-Type"] = "application/json"
        url = "https://%s:%d%s" % (*self.daemon.address, path)
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, fields, method=method), timeout=20,
                                        context=context) as answer:
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code

    def native(self, request, job, token, context):
        wire, welcome = self.wire(token, job, context)
        if welcome.code != "ok":
            return welcome.code
        if request == "barrier":
            return wire.barrier(os.urandom(4).hex(), 0, 1).code
        return (wire.get("k") if request == "get" else wire.set("k", "v")).code

    def test_every_cell(self):
        self.assertGreaterEqual(len(CELLS), 40)
        wrong = []
        for kind, role, request, job, expected in CELLS:
            by_certificate = kind == "certificate"
            context = self.contexts[role] if by_certificate else self.cluster.trust()
            token = "" if by_certificate else self.texts[kind, role]
            if " " in request:
                code = self.http(request.format(job=job), token, context)
            else:
                code = self.native(request, job, token, context)
            if code != expected:
                wrong.append((kind, role, request, job, expected, code))
        self.assertEqual([], wrong)
        self.assertEqual(["other", "own"], self.jobs(os.path.join(self.cluster.folder, "root.token")), "no cell has made a job")

    def test_a_token_goes_before_a_certificate(self):
        """Whoever shows both is who his token says, also if it is bad."""
        for token, code in (("own", "viewer"), "permission_denied"), (("own", "trainer"), "ok"):
            self.assertEqual(code, self.native("set", "own", self.texts[token], self.contexts["admin"]))
        self.assertEqual("unauthenticated", self.native("set", "own", "abc", self.contexts["admin"]))


if __name__ == "__main__":
    unittest.main()
