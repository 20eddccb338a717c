#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first ten minutes of a Python user: installs the wheel into fresh environments, without a compiler and without a
network, and runs the lines of docs/python.md. Those of PyTorch run where `./dev torch newest` has made its environment."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from package import HERE
sys.path.insert(0, os.path.join(HERE, "../pytorch"))
from daemon import BIN, SLOWDOWN, reserve_port, text_of  # noqa: E402
from environments import python_of  # noqa: E402

SOURCE = pathlib.Path(HERE, "../..").resolve()
PAGE = (SOURCE / "docs/python.md").read_text(encoding="utf-8")


def code_of(page, first):
    """The block of the page that begins with this line."""
    start = page.index("    " + first)
    return "\n".join(line[4:] for line in re.match(r"(?:    .*\n|\n)+", page[start:])[0].splitlines())


# Prints which libraries of the wheel the process has loaded.
MAPPED = """
import os
print(sorted({os.path.basename(line.split()[-1]) for line in open("/proc/self/maps") if "/c10dd/lib/" in line}))
"""


def build_other_openssl(folder):
    """Makes use.so, which needs a function of a libcrypto.so.3 that is newer than that of c10dd."""
    pathlib.Path(folder, "crypto.c").write_text("int newer_call(void) { return 42; }", encoding="ascii")
    pathlib.Path(folder, "use.c").write_text("int newer_call(void);\nint use(void) { return newer_call(); }", encoding="ascii")
    pathlib.Path(folder, "crypto.map").write_text("OPENSSL_3.9.0 { global: newer_call; };", encoding="ascii")
    for words in (["-Wl,-soname,libcrypto.so.3", "-Wl,--version-script=crypto.map", "-o", "libcrypto.so.3", "crypto.c"],
                  ["-o", "use.so", "use.c", "./libcrypto.so.3", "-Wl,-rpath,$ORIGIN"]):
        subprocess.run(["cc", "-shared", "-fPIC", *words], cwd=folder, check=True)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        subprocess.run(["cmake", "--install", os.path.dirname(BIN), "--prefix", cls.folder / "root", "--component", "wheel",
                        "--strip"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-B", SOURCE / "client/python/wheel.py", cls.folder / "root", cls.folder / "dist"],
                       check=True, stdout=subprocess.DEVNULL)
        cls.wheel = next((cls.folder / "dist").glob("*.whl"))
        cls.venv = cls.folder / "venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", cls.venv], check=True)
        cls.pip(cls.venv / "bin/pip", "install", cls.wheel)

    @staticmethod
    def pip(*words):
        subprocess.run([*words[:2], "--quiet", "--no-index", "--disable-pip-version-check", *words[2:]], check=True)

    def setUp(self):
        self.port = reserve_port()
        self.state = tempfile.TemporaryDirectory()
        self.addCleanup(self.state.cleanup)
        # Nothing of the sources, and no compiler.
        self.environment = {"PATH": f"{self.venv}/bin", "HOME": self.state.name, "C10DD_LISTEN": f"127.0.0.1:{self.port}",
                            "C10DD_ENGINE": f"rocksdb:{self.state.name}/state"}

    def start_daemon(self):
        self.log = tempfile.TemporaryFile()
        self.addCleanup(self.log.close)
        daemon = subprocess.Popen([self.venv / "bin/c10dd"], env=self.environment, stdout=subprocess.PIPE, stderr=self.log)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        self.assertTrue(daemon.stdout.readline().startswith(b"listening on "), text_of(self.log))
        return daemon

    def run_code(self, code, python="python", **variables):
        return subprocess.run([self.venv / "bin" / python, "-c", code], env={**self.environment, **variables}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * SLOWDOWN)

    def test_the_lines_of_the_page(self):
        self.start_daemon()
        code = code_of(PAGE, "import c10dd").replace("29500", str(self.port))
        run = self.run_code(code)
        said = code_of(PAGE, "c10dd.TimedOut: barrier").strip()
        self.assertEqual((1, said), (run.returncode, run.stdout.splitlines()[-1]))
        again = self.run_code(code.replace("client.barrier", "print(epoch); client.barrier"))
        self.assertIn("2", again.stdout.splitlines())

    def test_the_programs_use_the_libraries_of_the_wheel(self):
        daemon = self.start_daemon()
        maps = pathlib.Path(f"/proc/{daemon.pid}/maps").read_text(encoding="ascii")
        loaded = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
        foreign = {os.path.basename(path) for path in loaded if not path.startswith(str(self.venv))}
        usual = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|nss_\w+|resolv|asan|ubsan|tsan))\.so\.\S+")
        self.assertEqual(set(), {name for name in foreign if not usual.fullmatch(name)})
        for words in (["c10ddctl", "--daemon", f"127.0.0.1:{self.port}", "status"], ["c10drun", "--help"]):
            run = subprocess.run([self.venv / "bin" / words[0], *words[1:]], env=self.environment, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(0, run.returncode, run.stdout)

    def test_a_client_with_a_token(self):
        def ctl(*words):
            return subprocess.run([self.venv / "bin/c10ddctl", *words], env=self.environment, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ca, token = f"{self.state.name}/ca", f"{self.state.name}/alice.token"
        made = ctl("ca", "init", ca, "--host", "head")
        if "built without" in made.stdout:
            self.skipTest("the build has no TLS")
        self.assertEqual(0, made.returncode, made.stdout)
        self.assertEqual(0, ctl("ca", "token", ca, "--name", "alice", "--jobs", "try", "--out", token).returncode)
        self.environment["C10DD_TLS"] = f"{ca}/daemon"
        self.start_daemon()
        code = (f"import c10dd\nwith c10dd.connect('c10dd://127.0.0.1:{self.port}/try', connect_timeout=5) as client:\n"
                "    client.store.set('k', 'v')\n    print(client.store.get('k'))")
        self.assertEqual("b'v'\n", self.run_code(code, C10DD_TOKEN_FILE=token).stdout)
        # The process has another libcrypto.so.3, and a module that needs a function of it.
        build_other_openssl(self.state.name)
        for order in ("import ctypes; print(ctypes.CDLL('use.so').use())\n" + code,
                      code + "\nimport ctypes; print(ctypes.CDLL('use.so').use())"):
            run = self.run_code(order.replace("use.so", f"{self.state.name}/use.so") + MAPPED, C10DD_TOKEN_FILE=token)
            self.assertIn("42", run.stdout.splitlines())
            self.assertEqual("['libc10dd.so.1', 'libc10dd_tls.so']", run.stdout.splitlines()[-1])
        self.assertIn("set C10DD_TOKEN_FILE", self.run_code(code).stdout)

    def test_it_has_the_licenses_of_what_is_in_it(self):
        has = {path.name for path in self.venv.glob("lib/python3*/site-packages/c10dd-*.dist-info/licenses/*")}
        self.assertLessEqual({"libboost1.81-dev", "libssl-dev", "libstdc++-12-dev", "libxxhash-dev", "librocksdb-dev", "zlib1g"},
                             has | ({"zlib1g"} if "zlib1g-dev" in has else set()))
        self.assertFalse({"libc6-dev", "libgtest-dev", "libeigen3-dev"} & has)

    def test_importing_torch_is_not_disturbed(self):
        """The entry points load neither the library nor c10dd."""
        code = ("import importlib.metadata, sys\n"
                "for group in ('torch.backends', 'torchrun.handlers'):\n"
                "    for point in importlib.metadata.entry_points(group=group): point.load()()\n"
                "print('c10dd' in sys.modules, 'ctypes' in sys.modules)")
        self.assertEqual("False False\n", self.run_code(code).stdout)

    def test_with_torchrun(self):
        """The lines of README: the daemon is killed after the third step and comes back; all steps are made."""
        python = python_of("newest")
        if python is None:
            self.skipTest("PyTorch is not installed; ./dev torch newest installs it")
        site = self.folder / "site"
        if not site.exists():
            self.pip(self.venv / "bin/pip", "install", "--target", site, self.wheel)
        self.environment["PYTHONPATH"] = str(site)
        daemon = self.start_daemon()
        steps = 16
        launch = subprocess.Popen(
            [os.path.join(os.path.dirname(python), "torchrun"), "--rdzv-backend=c10dd",
             f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=try", "--nproc-per-node=2",
             os.path.join(HERE, "../pytorch/steps.py"), str(steps), "0.5"],
            env={**self.environment, "OMP_NUM_THREADS": "1", "SAY_STEPS": "1"}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.addCleanup(launch.wait)
        self.addCleanup(launch.kill)
        lines = []
        for line in launch.stdout:
            lines.append(line)
            if line.startswith("step 3 "):
                break
        daemon.send_signal(signal.SIGKILL)
        time.sleep(5)
        self.start_daemon()
        lines.append(launch.communicate(timeout=60 * SLOWDOWN)[0])
        said = "".join(lines)
        self.assertEqual(0, launch.returncode, said)
        total = sum(float(rank + step) for step in range(steps) for rank in range(2))
        for rank in range(2):
            self.assertIn(f"done {rank} {steps * 2} {total}\n", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
