# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates as sites make them, by the program openssl: CAs, intermediate CAs, and certificates with the usages
that cert-manager gives them. All keys are on P-256."""
import os
import shutil
import subprocess
import unittest

CA = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
LEAF = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nauthorityKeyIdentifier=keyid\n"


class Pki:
    """A folder for what is made. A CA or certificate is a pair of paths: (certificate, key)."""

    def __init__(self, folder):
        if shutil.which("openssl") is None:
            raise unittest.SkipTest("openssl is not installed")
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def openssl(self, *words):
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (words, done.stderr)

    def made(self, name, extensions, by=None):
        path = os.path.join(self.folder, name)
        crt, key, csr, ext = (path + end for end in (".crt", ".key", ".csr", ".ext"))
        with open(ext, "w", encoding="ascii") as file:
            file.write(extensions)
        self.openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr,
                     "-subj", "/CN=" + name)
        signer = ("-CA", by[0], "-CAkey", by[1], "-CAcreateserial") if by else ("-signkey", key)
        self.openssl("x509", "-req", "-in", csr, "-days", "30", "-extfile", ext, "-out", crt, *signer)
        return crt, key

    def ca(self, name, by=None):
        """A CA that signs itself, or an intermediate one that the CA `by` has signed."""
        return self.made(name, CA, by)

    def certificate(self, name, by, usages=("serverAuth",), names=("DNS:localhost", "IP:127.0.0.1")):
        return self.made(name, f"{LEAF}extendedKeyUsage={','.join(usages)}\nsubjectAltName={','.join(names)}\n", by)

    def tls_folder(self, name, certificate, ca, *above):
        """A folder for --tls, with the files that cert-manager writes; `above`: CAs in the chain of the daemon."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        with open(os.path.join(folder, "tls.crt"), "wb") as chain:
            for path in (certificate[0], *(one[0] for one in above)):
                with open(path, "rb") as file:
                    chain.write(file.read())
        shutil.copy(certificate[1], os.path.join(folder, "tls.key"))
        shutil.copy(ca[0], os.path.join(folder, "ca.crt"))
        return folder

    def ca_folder(self, name, ca):
        """A folder for c10ddctl ca, with a CA of the site."""
        folder = os.path.join(self.folder, name)
        os.makedirs(folder)
        for path, name in zip(ca, ("ca.crt", "ca.key")):
            shutil.copy(path, os.path.join(folder, name))
        return folder
