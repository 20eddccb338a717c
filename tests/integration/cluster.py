# SPDX-License-Identifier: Apache-2.0
"""A cluster with TLS: a CA, the files of its daemon, tokens, and clients that show them."""
import contextlib
import os
import ssl
import subprocess
import sys
import time
import urllib.request

from daemon import BIN, SLOWDOWN, Daemon

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))
from package import ENVIRONMENT  # noqa: E402
import c10dd  # noqa: E402

VARIABLES = ("C10DD_TOKEN", "C10DD_TOKEN_FILE", "C10DD_CA_FILE", "C10DD_CERT_FILE", "C10DD_KEY_FILE")


def ctl(*words, environment=None):
    """(exit code, standard output, standard error) of c10ddctl, with no credentials but these."""
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run([os.path.join(BIN, "c10ddctl"), *words], capture_output=True, text=True, timeout=60,
                          check=False, env={**clean, **(environment or {})})
    return done.returncode, done.stdout, done.stderr


def made(*words):
    code, out, error = ctl(*words)
    assert code == 0, error
    return out


def until(done, patience=20 * SLOWDOWN):
    """Waits until `done` returns true."""
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            raise AssertionError("it has not happened in time")
        time.sleep(0.05)


@contextlib.contextmanager
def credentials(**variables):
    """Clients that are made inside show these: credentials(TOKEN_FILE=path)."""
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    os.environ.update({"C10DD_" + name: value for name, value in variables.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class Cluster:
    """A folder with a CA, and its daemon."""

    def __init__(self, folder, *options, hosts=("head",), **daemon):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.ca = os.path.join(folder, "ca")
        self.files = os.path.join(self.ca, "daemon")
        made("ca", "init", self.ca, *(word for host in hosts for word in ("--host", host)))
        self.daemon = Daemon("--tls", self.files, *options, **daemon)

    def token(self, name, jobs="*", role="trainer", ttl="1h", file=None):
        """Makes a token. Returns the path of its file."""
        path = os.path.join(self.folder, file or f"{name}.token")
        made("ca", "token", self.ca, "--name", name, "--jobs", jobs, "--role", role, "--ttl", ttl, "--out", path)
        return path

    def url(self, job):
        return "c10dd://%s:%d/%s" % (*self.daemon.address, job)

    def connect(self, token, job="llm-1", timeout=20):
        with credentials(TOKEN_FILE=token):
            return c10dd.connect(self.url(job), timeout=timeout)

    def trust(self):
        return ssl.create_default_context(cafile=os.path.join(self.ca, "ca.crt"))

    def http(self, path, token=None, method="GET"):
        """(status, body) of one request over TLS."""
        fields = {}
        if token:
            with open(token, encoding="ascii") as file:
                fields["Authorization"] = "Bearer " + file.read().strip()
        request = urllib.request.Request("https://%s:%d%s" % (*self.daemon.address, path), headers=fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.trust()) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def run(self, code, token, job, *prefix):
        """Runs a program with the SDK in its own process: (exit code, output)."""
        clean = {name: value for name, value in ENVIRONMENT.items() if name not in VARIABLES}
        done = subprocess.run([*prefix, sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False,
                              env={**clean, "C10DD_URL": job, **({"C10DD_TOKEN_FILE": token} if token else {})})
        return done.returncode, (done.stdout + done.stderr).strip()
