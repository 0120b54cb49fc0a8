"""States that are of another job, damaged, or no states at all, at the real daemon: each gets an error that says what
is wrong, and the daemon goes on. LARDER_SEED sets the seed."""

import os
import shutil

import above  # noqa: F401
import raw
from raw_case import COUNT, SUBSET, VIEW, RawCase, turns_of
from system import files_of, main, tree, until

MUTATIONS = 3000
BODY = 40  # where what says which dataset and view it is of ends


class WrongStates(RawCase):
    def setUp(self):
        super().setUp()
        self.served = self.daemon()
        self.fds = self.open_fds()

    def tearDown(self):
        """The daemon has kept no descriptor, and serves."""
        self.whole(self.loader(self.served, self.dataset), COUNT)
        # Its client's, and one to spare; it closes those of clients that left when it comes to that.
        self.assertTrue(until(lambda: self.open_fds() <= self.fds + 2, 30), self.served.log())
        super().tearDown()

    def open_fds(self):
        return len(os.listdir(f"/proc/{self.served.process.pid}/fd"))

    def register(self, state, **options):
        client = raw.Client(self.served.socket)
        options = {"batch_size": 4, "subset": SUBSET, "seed": 11, **options}
        try:
            client.register(options.pop("dataset", self.dataset), state=state, **options)
        except raw.Refused:
            client.close()
            raise
        return client

    def refused(self, state, code, text, **options):
        with self.assertRaisesRegex(raw.Refused, text) as caught:
            self.register(state, **options).close()
        self.assertEqual((caught.exception.code, caught.exception.fatal), (code, True))

    def token(self, batches=0, **options):
        """What a rank presents that took some batches."""
        client = self.register(None, **options)
        taken = [client.take(0) for _ in range(batches)]
        record = client.record(0, None, taken)
        client.close()
        return record

    def test_another_job(self):
        """A state of another dataset, subset, order, seed or rank is refused for what it is, with what to do."""
        for shuffle in (raw.DEPENDENT, raw.STRICT):
            record = self.token(2, shuffle=shuffle)
            self.refused(record, "ECHANGED", "the state is of another dataset than .* is now .it had 120 samples, now "
                         "there are 60.: files came, went or changed.*; begin without a state, or with the dataset as "
                         "it was", dataset=tree(60), subset=None, shuffle=shuffle)
            self.refused(record, "EINVAL", "of another part of .* than this job's: give the subset that it was made "
                         "with", subset=None, shuffle=shuffle)
            self.refused(record, "EINVAL", "what rank 0 of 1 took, and this is rank 1 of 2: each gives its own, or all "
                         "the same checkpoint", world_size=2, rank=1, name="job", shuffle=shuffle)
        self.refused(record, "EINVAL", 'with shuffle "strict", and this one has "dependent": give the same')
        self.refused(record, "EINVAL", "with seed 11, and this one has 12: give the same, or the order is another",
                     shuffle=raw.STRICT, seed=12)
        record = self.token(2)
        # Without what was taken: that could be the last index, which 119 samples do not have.
        self.refused(record._replace(samples=COUNT - 1, over=frozenset((5,)), taken=()), "ECHANGED",
                     "it had 119 samples")
        self.refused(record._replace(over=frozenset((2,))), "EFORMAT",
                     "it has sample 2, which is no part of what the job trains on")
        self.refused(record._replace(over=frozenset(VIEW[:1]), taken=((1, 0, tuple(VIEW[:1])),)), "EFORMAT",
                     f"it has sample {VIEW[0]} twice")

    def test_a_changed_dataset(self):
        """A folder that has one file more is another dataset; without it, it is the same again."""
        root = os.path.join(self.folder, "copy")
        shutil.copytree(self.dataset, root)
        record = self.token(1, dataset=root)
        added = os.path.join(root, "class_00", "zzz.jpg")
        shutil.copyfile(files_of(root)[0], added)
        self.refused(record, "ECHANGED", "it had 120 samples, now there are 121", dataset=root)
        os.unlink(added)
        self.register(record, dataset=root).close()

    def test_ranks_that_do_not_fit(self):
        """Ranks that go on from different checkpoints, that come without one where others have one, or that had the
        same sample, are told so, and the ranks that fit are not held up."""
        options = {"world_size": 2, "name": "job"}
        start = self.token(rank=0, **options)._replace(world_size=0, taken=())
        base = start._replace(over=frozenset(VIEW[:8]), batches=1)
        first = self.register(base, rank=0, **options)
        self.refused(start, "EINVAL", "rank 1 goes on from another state than the other ranks", rank=1, **options)
        self.refused(None, "EINVAL", "rank 1 brings no state, and the other ranks do", rank=1, **options)
        second = self.register(base, rank=1, **options)
        for client in (first, second):
            client.next(0)
        turns = turns_of([first.batch(), second.batch()])
        self.assertEqual(len(set(turns) & set(VIEW[8:])), 8)
        first.close()
        second.close()
        had = [base._replace(world_size=2, rank=rank, taken=((4, 0, tuple(VIEW[8:12])),)) for rank in range(2)]
        first = self.register(had[0], rank=0, **{**options, "name": "other"})
        self.refused(had[1], "EINVAL", "rank 1 has had samples that another rank has had", rank=1,
                     **{**options, "name": "other"})
        first.close()

    def test_descriptors(self):
        """What is no memfd, empty, too long or cut off is refused. One that is not sealed is read all the same."""
        record = self.token(1)
        whole = record.encode()

        def unsealed(content, length=None):
            fd = os.memfd_create("state", os.MFD_CLOEXEC)
            os.write(fd, content)
            if length is not None:
                os.ftruncate(fd, length)
            return fd

        read_end, write_end = os.pipe()
        for fd, code, text in ((read_end, "EINVAL", "no memfd"),
                               (os.open("/dev/zero", os.O_RDONLY), "EINVAL", "no memfd"),
                               (unsealed(b""), "EFORMAT", "the state is empty"),
                               (unsealed(whole, 1 << 40), "ELIMIT", "1099511627776 bytes, and one of 120 samples at"),
                               (unsealed(whole, 1 << 20), "EFORMAT", "the state is damaged"),
                               (unsealed(whole, len(whole) - 1), "EFORMAT", "the state is damaged"),
                               (unsealed(whole, 7), "EFORMAT", "does not begin as a state of Larder does")):
            self.refused(fd, code, text)
            os.close(fd)
        os.close(write_end)
        fd = unsealed(whole)
        client = self.register(fd)
        os.close(fd)
        rest = client.epoch(0)
        self.assertEqual(sorted(turns_of(rest) + list(record.taken[0][2])), VIEW)
        client.close()

    def mutated(self, content):
        content = bytearray(content)
        for _ in range(self.draw.randrange(1, 4)):
            first = 0 if self.draw.randrange(5) == 0 else BODY
            content += bytes(max(0, first + 1 - len(content)))  # others before may have cut it
            at = self.draw.randrange(first, len(content))
            kind = self.draw.randrange(6)
            if kind == 0:
                content[at] ^= 1 << self.draw.randrange(8)
            elif kind == 1:
                content[at] = self.draw.randrange(256)
            elif kind == 2:
                content[at:at + 4] = self.draw.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0\0", b"\0\0\0\x80"))
            elif kind == 3:
                content[at] = (content[at] + self.draw.choice((-1, 1))) % 256
            elif self.draw.randrange(4):
                content[at] ^= 1 << self.draw.randrange(8)
            elif kind == 4:
                content[at:at + self.draw.randrange(9)] = bytes(self.draw.randrange(9))
            else:
                del content[max(at, BODY) + 1:]
        return bytes(content)

    def test_mutations(self):
        """3,000 changed states: each is refused with a reason, or taken for what it says: then what comes is of the
        view, each turn once."""
        records = [self.token(3, shuffle=shuffle) for shuffle in (raw.DEPENDENT, raw.STRICT)]
        had = {turn for _, _, turns in records[0].taken for turn in turns}
        records[0] = records[0]._replace(over=frozenset(set(VIEW[:60]) - had))
        records[1] = records[1]._replace(segments=((3, (5, 4, 4)),), taken=((4, 4, ()), (4, 9, ())))
        contents, accepted, codes = [record.encode() for record in records], 0, {}
        for record, content in zip(records, contents):
            self.register(content, shuffle=record.shuffle).close()
        for number in range(MUTATIONS):
            try:
                client = self.register(self.mutated(contents[number % 2]), shuffle=records[number % 2].shuffle)
            except raw.Refused as error:
                self.assertIn("the state ", str(error))
                codes[error.code] = codes.get(error.code, 0) + 1
                continue
            accepted += 1
            if accepted % 8 == 0:
                rest = client.epoch(client.info["epoch"])
                turns = turns_of(rest)
                self.assertEqual(len(turns), len(set(turns)))
                self.assertLessEqual({index for batch in rest for index in batch.indices} | set(turns), set(VIEW))
            client.close()
        print(f"{accepted} of {MUTATIONS} accepted, {codes}", flush=True)
        self.assertEqual(set(codes), {"EINVAL", "ECHANGED", "EFORMAT", "EVERSION"})
        self.assertTrue(0 < accepted < MUTATIONS / 2)
        self.assertIsNone(self.served.process.poll())


if __name__ == "__main__":
    main()
