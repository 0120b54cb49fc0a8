"""`larder cluster keygen`: an authority and bundles of its nodes, as files that nobody else reads."""

import os
import shutil
import stat
import subprocess
import tempfile
import unittest

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
BIN = os.environ.get("LARDER_BIN", os.path.join(SOURCE, "build", "bin"))
SLOW = int(os.environ.get("LARDER_TEST_PATIENCE", "1"))
DONE, FAILED, USAGE = 0, 1, 2


def keygen(*words):
    return subprocess.run([os.path.join(BIN, "larder"), "cluster", "keygen", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60 * SLOW, umask=0)


class Keygen(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="larder-keygen-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.authority = self.path("authority.pem")
        self.made(self.authority, "--cluster", "lab", "--authority", self.authority)

    def path(self, name):
        return os.path.join(self.folder, name)

    def made(self, path, *words):
        """The text of the file that was made, which its user alone may read, whatever the umask is."""
        result = keygen(*words)
        self.assertEqual((result.returncode, result.stderr), (DONE, ""), words)
        self.assertIn(path, result.stdout)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path) as file:
            return file.read()

    def refused(self, status, text, *words):
        """It says why in one line, and makes no file."""
        before = sorted(os.listdir(self.folder))
        result = keygen(*words)
        self.assertEqual((result.returncode, result.stdout), (status, ""), words)
        self.assertIn(text, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def bundle(self, name, *words):
        path = self.path(name + ".pem")
        return self.made(path, "--authority", self.authority, "--node", name, *words, path)

    def test_two_bundles(self):
        """Two nodes have bundles of one authority, each with a key of its own, and never the authority's key."""
        with open(self.authority) as file:
            authority = file.read()
        one, two = self.bundle("node-1"), self.bundle("node-2", "--days", "30")
        key = "-----BEGIN PRIVATE KEY-----"
        self.assertEqual([text.count("-----BEGIN CERTIFICATE-----") for text in (authority, one, two)], [1, 2, 2])
        self.assertEqual([text.count(key) for text in (authority, one, two)], [1, 1, 1])
        self.assertEqual(len({text.split(key)[1] for text in (authority, one, two)}), 3)
        for text in (one, two):
            self.assertIn(authority.split(key)[0], text)

    def test_openssl_agrees(self):
        """OpenSSL finds that the authority signed the bundle, and whose it is."""
        if not shutil.which("openssl"):
            self.skipTest("no openssl here")
        self.bundle("node-1", "--days", "30")
        bundle = self.path("node-1.pem")

        def openssl(*words):
            return subprocess.run(["openssl", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=60 * SLOW)

        verified = openssl("verify", "-CAfile", self.authority, bundle)
        self.assertEqual(verified.returncode, 0, verified.stdout)
        self.assertRegex(openssl("x509", "-in", bundle, "-noout", "-subject").stdout, "O ?= ?lab, ?CN ?= ?node-1")
        day = 86400
        for seconds, rest in ((29 * day, 0), (31 * day, 1)):
            asked = openssl("x509", "-in", bundle, "-noout", "-checkend", str(seconds))
            self.assertEqual(asked.returncode, rest, asked.stdout)

    def test_never_overwritten(self):
        """What is there stays as it is."""
        one = self.bundle("node-1")
        with open(self.authority) as file:
            authority = file.read()
        path = self.path("node-1.pem")
        self.refused(FAILED, path + " exists already", "--authority", self.authority, "--node", "node-1", path)
        self.refused(FAILED, "authority.pem exists already", "--cluster", "lab", "--authority", self.authority)
        for kept, text in ((path, one), (self.authority, authority)):
            with open(kept) as file:
                self.assertEqual(file.read(), text)

    def test_wrong_names(self):
        """A name that a configuration would not take is refused."""
        for name in ("", "a b", "a/b", "ä", "x" * 65):
            self.refused(FAILED, "a cluster's name has 1 to 64", "--cluster", name, "--authority", self.path("new"))
            self.refused(FAILED, "a node's name has 1 to 64", "--authority", self.authority, "--node", name,
                         self.path("new"))

    def test_wrong_authority(self):
        """Only an authority's own file signs, and only one that others cannot read."""
        self.bundle("node-1")
        new = self.path("new")
        self.refused(FAILED, "not an authority", "--authority", self.path("node-1.pem"), "--node", "node-2", new)
        self.refused(FAILED, "cannot open", "--authority", self.path("none"), "--node", "node-2", new)
        os.chmod(self.authority, 0o644)
        self.refused(FAILED, "chmod 600", "--authority", self.authority, "--node", "node-2", new)

    def test_wrong_usage(self):
        """What cannot be meant is said before anything is made."""
        new, ours = self.path("new"), ("--authority", self.authority)
        for text, words in (("--authority FILE is missing", ("--cluster", "lab")),
                            ("one of --cluster NAME", ours),
                            ("one of --cluster NAME", ("--cluster", "lab", "--node", "a", *ours, new)),
                            ("the file of the node's bundle is missing", ("--node", "a", *ours)),
                            ("an authority is one file", ("--cluster", "lab", "--authority", new, "more")),
                            ("--days is for a node's bundle", ("--cluster", "lab", "--authority", new, "--days", "3")),
                            ("1 to 7300", ("--node", "a", *ours, "--days", "0", new)),
                            ("1 to 7300", ("--node", "a", *ours, "--days", "7301", new)),
                            ("1 to 7300", ("--node", "a", *ours, "--days", "3x", new)),
                            ("more than one file", ("--node", "a", *ours, new, "more")),
                            ('no such option: --nodes (did you mean "--node"?)', ("--nodes", "a"))):
            self.refused(USAGE, text, *words)

    def test_help(self):
        """`larder cluster` lists its commands, and keygen has a --help."""
        larder = os.path.join(BIN, "larder")
        listed = subprocess.run([larder, "cluster", "--help"], stdout=subprocess.PIPE, text=True, timeout=60 * SLOW)
        self.assertEqual(listed.returncode, DONE)
        self.assertIn("cluster keygen", listed.stdout)
        self.assertIn("--authority FILE", keygen("--help").stdout)


if __name__ == "__main__":
    unittest.main()
