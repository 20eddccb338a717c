# SPDX-License-Identifier: Apache-2.0
"""Keys, tokens and certificates of a site that knows nothing of c10dd, made by Debian's python3-jwt and
python3-cryptography. Tests import the class Foreign; run by Debian's Python, this file is its maker, which answers each
line of JSON on its standard input by one line."""
import datetime
import json
import os
import subprocess
import sys
import unittest

DEBIAN = "/usr/bin/python3"


class Foreign:
    """A folder for what the maker makes. Skips the test where the packages are missing."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        found = subprocess.run([DEBIAN, "-c", "import jwt, cryptography"], capture_output=True, check=False) \
            if os.path.exists(DEBIAN) else None
        if found is None or found.returncode != 0:
            raise unittest.SkipTest("python3-jwt and python3-cryptography of Debian are not installed")
        self.maker = subprocess.Popen([DEBIAN, "-B", os.path.abspath(__file__)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def ask(self, what, **order):
        print(json.dumps({"what": what, **order}), file=self.maker.stdin, flush=True)
        answer = self.maker.stdout.readline()
        assert answer, f"no {what}: {order}"
        return json.loads(answer)

    def close(self):
        self.maker.stdin.close()
        self.maker.wait(20)
        self.maker.stdout.close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def key(self, name, kind="rsa"):
        """The path of a new private key: rsa, rsa1024, ec or ed25519."""
        return self.ask("key", path=self.path(name + ".key"), kind=kind)

    def token(self, key, claims, algorithm="RS256", kid=None):
        """`key`: a path, or None for a token that nobody has signed."""
        return self.ask("token", key=key, claims=claims, algorithm=algorithm, kid=kid)

    def jwks(self, name, **keys):
        """The path of a key set: kid=path of the private key."""
        return self.ask("jwks", path=self.path(name), keys=keys)

    def public(self, key):
        return self.ask("public", key=key)

    def ca(self, name):
        """(certificate, key) of a new CA, as paths."""
        return self.ask("ca", path=self.path(name))

    def certificate(self, name, ca, uris=(), hosts=(), begins=-60, ends=3600, usage=("client",)):
        """(certificate, key) that `ca`, such a pair, has signed; the times are seconds from now."""
        return self.ask("certificate", path=self.path(name), ca=ca, uris=uris, hosts=hosts, begins=begins, ends=ends,
                        usage=usage)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    return path


class Maker:
    """What Debian's Python does."""

    def __init__(self):
        import jwt
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
        self.jwt, self.x509, self.hashes, self.serialization = jwt, x509, hashes, serialization
        self.kinds = {"rsa": lambda: rsa.generate_private_key(65537, 2048),
                      "rsa1024": lambda: rsa.generate_private_key(65537, 1024), "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
                      "ed25519": ed25519.Ed25519PrivateKey.generate}

    def private(self, path):
        return self.serialization.load_pem_private_key(read(path), None)

    def key(self, path, kind):
        own = self.kinds[kind]()
        return write(path, own.private_bytes(self.serialization.Encoding.PEM, self.serialization.PrivateFormat.PKCS8,
                                             self.serialization.NoEncryption()))

    def token(self, key, claims, algorithm, kid):
        return self.jwt.encode(claims, read(key) if key else None, algorithm, {"kid": kid} if kid else None)

    def public(self, key):
        return self.private(key).public_key().public_bytes(
            self.serialization.Encoding.PEM, self.serialization.PublicFormat.SubjectPublicKeyInfo).decode()

    def jwks(self, path, keys):
        return write(path, json.dumps({"keys": [{"kid": kid, "use": "sig", **self.members(self.private(key).public_key())}
                                                for kid, key in keys.items()]}).encode())

    def members(self, key):
        def text(number, size):
            return self.jwt.utils.base64url_encode(number.to_bytes(size, "big")).decode()
        if not hasattr(key, "public_numbers"):
            raw = key.public_bytes(self.serialization.Encoding.Raw, self.serialization.PublicFormat.Raw)
            return {"kty": "OKP", "crv": "Ed25519", "x": self.jwt.utils.base64url_encode(raw).decode()}
        numbers = key.public_numbers()
        if hasattr(numbers, "n"):
            return {"kty": "RSA", "alg": "RS256", "n": text(numbers.n, key.key_size // 8), "e": text(numbers.e, 3)}
        return {"kty": "EC", "alg": "ES256", "crv": "P-256", "x": text(numbers.x, 32), "y": text(numbers.y, 32)}

    def signed(self, path, own, issuer, signer, times, extensions):
        x509 = self.x509
        now = datetime.datetime.utcnow()
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, os.path.basename(path))])
        builder = x509.CertificateBuilder(issuer or name, name, own.public_key(), x509.random_serial_number(),
                                          *(now + datetime.timedelta(seconds=one) for one in times))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        pem = builder.sign(signer or own, self.hashes.SHA256()).public_bytes(self.serialization.Encoding.PEM)
        return write(path + ".crt", pem)

    def ca(self, path):
        key = self.key(path + ".key", "ec")
        return self.signed(path, self.private(key), None, None, (-86400, 86400),
                           [(self.x509.BasicConstraints(True, 0), True)]), key

    def certificate(self, path, ca, uris, hosts, begins, ends, usage):
        x509 = self.x509
        key = self.key(path + ".key", "ec")
        purposes = {"client": x509.ExtendedKeyUsageOID.CLIENT_AUTH, "server": x509.ExtendedKeyUsageOID.SERVER_AUTH}
        names = [*map(x509.UniformResourceIdentifier, uris), *map(x509.DNSName, hosts)]
        extensions = [(x509.SubjectAlternativeName(names), False)] if names else []
        if usage:
            extensions.append((x509.ExtendedKeyUsage([purposes[one] for one in usage]), False))
        issuer = x509.load_pem_x509_certificate(read(ca[0])).subject
        return self.signed(path, self.private(key), issuer, self.private(ca[1]), (begins, ends), extensions), key


def main():
    maker = Maker()
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(getattr(maker, order.pop("what"))(**order)), flush=True)


if __name__ == "__main__":
    main()
