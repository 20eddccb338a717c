# SPDX-License-Identifier: Apache-2.0
"""Two machines for a test: network namespaces of this process's own, joined by a link that can be set
down. This process, and who is started by it, is in the near one; nothing else on the machine is touched."""
import ctypes
import os
import subprocess
import unittest

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def current():
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class TwoNetworks:
    """Call it on the main thread. Skips the test where this user may not make networks."""
    # The default addresses of the two machines; IPv6 works, too.
    NEAR = "10.213.7.1"
    FAR = "10.213.7.2"

    def __init__(self, near=NEAR, far=FAR):
        self.home = current()
        try:
            self.far, self.near = self.new(), self.new()
            there = f"/proc/{os.getpid()}/fd/{self.far}"
            self.in_far = ("nsenter", f"--net={there}")
            self.ip(f"link add near0 type veth peer name far0 netns {there}")
            bits, more = ("/64", " nodad") if ":" in near else ("/24", "")
            for words in (f"addr add {near}{bits} dev near0{more}", "link set near0 up", "link set lo up"):
                self.ip(words)
            for words in (f"addr add {far}{bits} dev far0{more}", "link set far0 up", "link set lo up"):
                self.ip(words, *self.in_far)
        except (OSError, subprocess.CalledProcessError) as error:
            self.go_home()
            raise unittest.SkipTest(f"no network namespaces: {error}") from error

    @staticmethod
    def new():
        check(LIBC.unshare(CLONE_NEWNET))
        return current()

    @staticmethod
    def ip(words, *prefix):
        subprocess.run([*prefix, "ip", *words.split()], check=True)

    def set_link(self, up):
        """The far end of the link: nobody is told that it is down."""
        self.ip(f"link set far0 {'up' if up else 'down'}", *self.in_far)

    def go_home(self):
        check(LIBC.setns(self.home, CLONE_NEWNET))

    def close(self):
        """The networks go with the last process that is in them."""
        self.go_home()
        for descriptor in (self.home, self.far, self.near):
            os.close(descriptor)
