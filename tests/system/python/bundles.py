"""Bundles of a cluster: those that `larder cluster keygen` makes, and with openssl those that it never would."""

import os
import shutil
import subprocess

from system import BIN, SLOW


def keygen(*words):
    subprocess.run([os.path.join(BIN, "larder"), "cluster", "keygen", *words], check=True, timeout=60 * SLOW,
                   stdout=subprocess.DEVNULL)


def authority(path, cluster):
    keygen("--cluster", cluster, "--authority", path)
    return path


def issue(authority_path, node, path):
    keygen("--authority", authority_path, "--node", node, path)
    return path


def can_forge():
    return shutil.which("openssl") is not None


def forge(authority_path, cluster, days, path):
    """A bundle that the authority has signed, for a cluster of any name; one of less than 0 days has expired."""
    key, request, certificate = (path + end for end in (".key", ".request", ".certificate"))

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, timeout=60 * SLOW, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj",
            f"/O={cluster}/CN=forged", "-out", request)
    openssl("x509", "-req", "-in", request, "-CA", authority_path, "-CAkey", authority_path, "-set_serial", "7",
            "-days", str(days), "-out", certificate)
    parts = []
    for name in (certificate, authority_path, key):
        with open(name) as file:
            parts.append(file.read())
    first = parts[1].index("-----BEGIN CERTIFICATE-----")
    end = "-----END CERTIFICATE-----\n"
    parts[1] = parts[1][first:parts[1].index(end) + len(end)]
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("".join(parts))
    return path
