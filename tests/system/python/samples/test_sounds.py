"""Sounds: pieces of clips, as libsndfile's own Python package decodes them, mixed, resampled and delivered."""

import io
import os
import re
import subprocess
import tarfile
import unittest
import wave

import numpy as np

import above  # noqa: F401
from system import BIN, SLOW, Case, files_of, larder, main

try:
    import soundfile
except (ImportError, OSError):
    soundfile = None
try:
    import soxr
except ImportError:
    soxr = None

CONFIG = """\
memory:
  arena: 32MiB
  encoded: 16MiB
catalog:
  checkpoint: none
limits:
  bad: 8
metrics:
  enabled: false
"""
RATE = 16_000
MONO = [{"segment": {"seconds": 0.25}}, "to_mono", {"resample": {"rate": RATE}}]


def clip(seed, frames, channels=1):
    """Noise that changes slowly, (frames, channels), in int16."""
    noise = np.random.default_rng(seed).normal(size=(frames + 8, channels))
    smooth = sum(noise[i:frames + i] for i in range(8)) / 8
    return np.round(smooth.clip(-1, 1) * 30_000).astype("<i2")


def wav(path, data, rate=RATE):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with wave.open(path, "wb") as file:
        file.setparams((data.shape[1], 2, rate, 0, "NONE", ""))
        file.writeframes(data.tobytes())


def floats(data):
    """(frames, channels) of int16 as (channels, frames) of float32."""
    return (data.T / np.float32(32_768)).astype(np.float32)


class Sounds(Case):
    def setUp(self):
        super().setUp()
        self.dataset = os.path.join(self.folder, "clips")
        self.running = self.daemon(CONFIG)
        self.clips = os.path.join(self.dataset, "all")
        os.makedirs(self.clips)
        wav(os.path.join(self.clips, "probe.wav"), clip(0, RATE))
        try:
            with self.loader(self.running, self.dataset, 1, pipeline=MONO):
                pass
        except larder.InvalidArgument as error:
            if "built without sound" in str(error):
                self.skipTest(str(error))
            raise
        os.remove(os.path.join(self.clips, "probe.wav"))

    def samples(self, pipeline, dataset=None, **options):
        """What comes in one epoch in order: index and sample."""
        options = {"shuffle": "none", "output": "numpy", **options}
        with self.loader(self.running, dataset or self.dataset, 3, pipeline=pipeline, **options) as loader:
            return {index: np.array(one) for batch, _, indices in loader
                    for index, one in zip(indices.tolist(), batch)}

    def test_clips_of_a_folder(self):
        """Sounds of a folder, other files passed over: each comes once, its start as its file has it, zeros behind a
        short one; in float32 and int16."""
        data = [clip(i, frames) for i, frames in enumerate((4000, 4001, 16_000, 1000, 1))]
        for i, one in enumerate(data):
            wav(os.path.join(self.clips, f"{i}.wav"), one)
        with open(os.path.join(self.clips, "text.txt"), "w") as file:
            file.write("words")
        for more, dtype in ([], np.float32), ([larder.ToInt16()], np.int16):
            got = self.samples(MONO + more)
            self.assertEqual(sorted(got), list(range(5)))
            for i, one in enumerate(data):
                expected = np.zeros((1, 4000), dtype)
                start = one[:4000] if more else floats(one[:4000])
                expected[0, :start.size] = start.reshape(-1)
                self.assertEqual(got[i].dtype, dtype)
                np.testing.assert_array_equal(got[i], expected)

    def test_look(self):
        """`larder look` says what clips are, and its list makes samples of them; what is no sound it counts."""
        def look():
            return subprocess.run([os.path.join(BIN, "larder"), "look", self.dataset], stdout=subprocess.PIPE,
                                  text=True, timeout=30 * SLOW, check=True).stdout
        wav(os.path.join(self.clips, "0.wav"), clip(0, 16_000))
        wav(os.path.join(self.clips, "1.wav"), clip(1, 3 * 44_100, 2), 44_100)
        told = look()
        self.assertIn("sounds   WAV of 16 kHz, mono; WAV of 44.1 kHz, stereo\n"
                      "length   2.00 s on average, 1.00 to 3.00 s, of 2 clips that were read\n", told)
        pipeline = eval(re.search(r"write +(.*)", told)[1])
        self.assertEqual({one.shape for one in self.samples(pipeline).values()}, {(1, 32_000)})
        with open(os.path.join(self.clips, "2.wav"), "w") as file:
            file.write("no sound")
        self.assertIn("damaged  1 of 3 clips cannot be read as sounds\n", look())

    def test_channels(self):
        """to_mono is the mean; to_stereo keeps two channels, and has one twice."""
        mono, stereo = clip(1, 5000), clip(2, 5000, 2)
        wav(os.path.join(self.clips, "0.wav"), mono)
        wav(os.path.join(self.clips, "1.wav"), stereo)
        got = self.samples([{"segment": {"frames": 5000}}, "to_mono"])
        np.testing.assert_array_equal(got[0], floats(mono))
        np.testing.assert_allclose(got[1], floats(stereo).mean(axis=0, keepdims=True), atol=1e-7)
        got = self.samples([larder.Segment(frames=5000), larder.ToStereo()])
        np.testing.assert_array_equal(got[0], floats(mono).repeat(2, axis=0))
        np.testing.assert_array_equal(got[1], floats(stereo))

    def test_random_pieces(self):
        """A random piece is one of the clip, elsewhere in the next epoch; a centred one is in its middle. Gain is what
        was drawn, within its bounds."""
        data = clip(3, 50_000)
        whole = floats(data)[0]
        for i in range(6):
            wav(os.path.join(self.clips, f"{i}.wav"), clip(10 + i, 50_000))
        wav(os.path.join(self.clips, "6.wav"), data)
        middle = self.samples([{"segment": {"frames": 1000, "place": "center"}}, "to_mono"])
        np.testing.assert_array_equal(middle[6][0], whole[24_500:25_500])
        starts = []
        pipeline = [{"random_segment": {"frames": 1000}}, "to_mono"]
        with self.loader(self.running, self.dataset, 1, pipeline=pipeline, shuffle="strict", seed=3) as loader:
            for _ in range(4):
                for batch, _, indices in loader:
                    if indices.tolist() == [6]:
                        piece = np.asarray(batch)[0, 0]
                        found = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(whole, 1000)[:, 0] == piece[0])
                        starts.append([at for at in found.tolist() if (whole[at:at + 1000] == piece).all()][0])
        self.assertEqual(len(starts), 4)
        self.assertGreater(len(set(starts)), 2)
        loud = self.samples([{"segment": {"frames": 1000}}, "to_mono",
                             larder.RandomGain(-6, 6, 1)])[6][0]
        factors = loud[whole[:1000] != 0] / whole[:1000][whole[:1000] != 0]
        self.assertLess(np.ptp(factors), 1e-5)
        self.assertTrue(10 ** (-6 / 20) <= factors[0] <= 10 ** (6 / 20))

    def test_resampled(self):
        """A tone stays that tone at another rate, away from the ends to -90 dB, with the number of frames that the
        seconds take."""
        for rate in 8_000, 22_050, 44_100, 48_000:
            tone = np.sin(2 * np.pi * 440 * np.arange(rate) / rate) * 0.5
            path = os.path.join(self.clips, f"{rate}.wav")
            wav(path, np.round(tone * 32_000).astype("<i2").reshape(-1, 1), rate)
        got = self.samples([{"segment": {"seconds": 0.5}}, "to_mono", {"resample": {"rate": RATE}}])
        expected = np.sin(2 * np.pi * 440 * np.arange(RATE // 2) / RATE) * 0.5 * 32_000 / 32_768
        self.assertEqual(len(got), 4)
        for one in got.values():
            self.assertEqual(one.shape, (1, RATE // 2))
            self.assertLess(np.abs(one[0] - expected)[1000:-1000].max(), 10 ** (-86 / 20))

    @unittest.skipUnless(soxr, "needs soxr")
    def test_as_soxr(self):
        """Noise at another rate is what the same library's Python package makes of the whole clip, away from the ends
        to -90 dB of full scale."""
        kinds = {f"{rate}": (rate, clip(rate, rate)) for rate in (8_000, 11_025, 22_050, 44_100, 48_000)}
        for name, (rate, data) in kinds.items():
            wav(os.path.join(self.clips, f"{name}.wav"), data, rate)
        got = self.samples([{"segment": {"seconds": 0.5}}, "to_mono", {"resample": {"rate": RATE}}])
        files = files_of(self.dataset)
        self.assertEqual(len(files), len(kinds))
        for index, path in enumerate(files):
            rate, data = kinds[os.path.basename(path)[:-4]]
            expected = soxr.resample(floats(data)[0], rate, RATE, quality="HQ")[:RATE // 2]
            worst = np.abs(got[index][0] - expected)[1000:-1000].max()
            self.assertLess(worst, 10 ** (-90 / 20), f"{rate} Hz: {20 * np.log10(worst + 1e-12):.0f} dB")

    def test_shared(self):
        """Four jobs have one decode of each clip."""
        for i in range(24):
            wav(os.path.join(self.clips, f"{i:02d}.wav"), clip(i, 8000))
        pipeline = [{"random_segment": {"seconds": 0.25}}, "to_mono", {"resample": {"rate": RATE}}]
        loaders = [self.loader(self.running, self.dataset, 4, pipeline=pipeline) for _ in range(4)]
        before = self.running.status()["samples"]["decoded"]
        seen = [[] for _ in loaders]
        for batches in zip(*loaders):
            for had, (_, _, indices) in zip(seen, batches):
                had += indices.tolist()
        for had, loader in zip(seen, loaders):
            self.assertEqual(sorted(had), list(range(24)))
            loader.close()
        self.assertLessEqual(self.running.status()["samples"]["decoded"] - before, 30)

    def test_damaged(self):
        """Clips that are cut short, empty, of other formats or too short cost themselves alone."""
        good = clip(5, 8000)
        for i in range(80): # more than a tenth of bad ones would end the job
            wav(os.path.join(self.clips, f"good{i:02d}.wav"), good)
        path = os.path.join(self.clips, "bad{}.wav")
        for i, data in enumerate((b"", b"RIFF", b"RIFF\xff\xff\xff\xffWAVEfmt ", b".snd" + bytes(60),
                                  b"fLaC" + bytes(60))):
            with open(path.format(i), "wb") as file:
                file.write(data)
        wav(os.path.join(self.clips, "short.wav"), clip(6, 100))
        pipeline = [{"segment": {"frames": 4000, "pad": False}}, "to_mono"]
        names = [os.path.basename(file) for file in files_of(self.dataset)]
        got = self.samples(pipeline, bad_samples="skip")
        self.assertEqual([names[index] for index in sorted(got)], [f"good{i:02d}.wav" for i in range(80)])
        for one in got.values():
            np.testing.assert_array_equal(one, floats(good[:4000]))

    def test_refused(self):
        """A list that does not say what comes out, or mixes sounds and images, is refused with the operator's place."""
        wav(os.path.join(self.clips, "a.wav"), clip(5, 8000))
        for pipeline, text in (
                (["to_mono"], "different lengths"),
                ([{"segment": {"frames": 100}}], "to_mono or to_stereo"),
                ([{"segment": {"seconds": 1}}, "to_mono"], "add resample"),
                ([{"segment": {}}], "either seconds or frames"),
                ([{"segment": {"frames": 1}}, {"segment": {"frames": 1}}], r"pipeline\[1\] segment: a segment stands"),
                ([{"segment": {"frames": 1}}, {"center_crop": {"size": 8}}], r"pipeline\[1\] center_crop: it works on"),
                ([{"center_crop": {"size": 8}}, "to_mono"], r"pipeline\[1\] to_mono: it works on sounds"),
                ([{"random_apply": {"transforms": ["to_mono"]}}], "cannot be in a group")):
            with self.subTest(pipeline=pipeline), self.assertRaisesRegex(larder.InvalidArgument, text):
                self.loader(self.running, self.dataset, 1, pipeline=pipeline)

    def test_sources(self):
        """The same clips from a folder, a list, shards and a store."""
        for i in range(10):
            wav(os.path.join(self.clips, f"{i}.wav"), clip(i, 4000 + i))
        expected = self.samples(MONO)
        listed = os.path.join(self.folder, "clips.csv")
        with open(listed, "w") as file:
            file.write("file_name,text\n" + "".join(f"clips/all/{i}.wav,words of {i}\n" for i in range(10)))
        shard = os.path.join(self.folder, "shard.tar")
        with tarfile.open(shard, "w") as tar:
            for i in range(10):
                tar.add(os.path.join(self.clips, f"{i}.wav"), f"{i}.wav")
                info = tarfile.TarInfo(f"{i}.txt")
                info.size = 1
                tar.addfile(info, io.BytesIO(b"%d" % i))
        store = os.path.join(self.folder, "clips.store")
        subprocess.run([os.path.join(BIN, "larder"), "pack", "--all-files", self.dataset, store, "--quiet"], check=True)
        labels = {"labels": [0] * 10}
        for source in listed, shard, store:
            with self.subTest(source=source):
                got = self.samples(MONO, source, **labels)
                of = {one.tobytes() for one in got.values()}
                self.assertEqual(of, {one.tobytes() for one in expected.values()})
        for source, column in (listed, "text"), (shard, "txt"):
            with self.loader(self.running, source, 5, pipeline=MONO, columns=[column], shuffle="none",
                             **labels) as loader:
                texts = [str(text) for *_, texts in loader for text in texts]
            self.assertEqual([text[-1] for text in texts], [str(i) for i in range(10)])

    def test_views(self):
        """Two views of a clip are two pieces of it."""
        data = clip(7, 20_000)
        wav(os.path.join(self.clips, "a.wav"), data)
        views = [larder.View([larder.RandomSegment(frames=500), larder.ToMono()], count=2)]
        with self.loader(self.running, self.dataset, 1, pipeline=[], views=views, output="numpy") as loader:
            for (first, second), _, _ in loader:
                self.assertEqual(first.shape, (1, 1, 500))
                self.assertFalse(np.array_equal(first, second))

    @unittest.skipUnless(soundfile, "needs soundfile")
    def test_as_soundfile(self):
        """Each format, from its start and from its middle, as the same library's Python package decodes it."""
        data = clip(8, 40_000, 2)
        kinds = {"wav": "PCM_24", "flac": "PCM_16", "aiff": "PCM_16", "ogg": "VORBIS", "mp3": "MPEG_LAYER_III"}
        for kind, subtype in kinds.items():
            soundfile.write(os.path.join(self.clips, f"a.{kind}"), data, 16_000, subtype=subtype)
        soundfile.write(os.path.join(self.clips, "b.opus"), data, 16_000, format="OGG", subtype="OPUS")
        files = files_of(self.dataset)
        self.assertEqual(len(files), 6)
        for place, start in ("start", 0), ("center", None):
            got = self.samples([{"segment": {"frames": 6000, "place": place}}, "to_stereo"])
            for index, path in enumerate(files):
                whole, _ = soundfile.read(path, dtype="float32", always_2d=True)
                first = (len(whole) - 6000) // 2 if start is None else start
                with soundfile.SoundFile(path) as file:
                    file.seek(first)
                    sought = file.read(6000, dtype="float32", always_2d=True)
                with self.subTest(path=path, place=place):
                    # lossy ones differ in last bits, by where their decoder began and by its build
                    exact = path.endswith((".wav", ".flac", ".aiff"))
                    np.testing.assert_allclose(got[index], sought.T, rtol=0, atol=0 if exact else 1e-6)
                    np.testing.assert_allclose(got[index], whole[first:first + 6000].T, rtol=0,
                                               atol=0 if exact else 1e-6)

    def test_librispeech(self):
        """A folder of LibriSpeech as a list: its clips, with words, lengths and speakers, of the whole or of a part."""
        if not soundfile:
            self.skipTest("needs soundfile")
        words, data = {}, {}
        for speaker, chapter in (("84", "1"), ("84", "2"), ("1272", "7")):
            folder = os.path.join(self.folder, "LibriSpeech", "dev-clean", speaker, chapter)
            os.makedirs(folder)
            with open(os.path.join(folder, f"{speaker}-{chapter}.trans.txt"), "w") as file:
                for i in range(3):
                    name = f"{speaker}-{chapter}-{i:04d}"
                    words[name], data[name] = f"WORDS OF {name}, AND MORE", clip(len(data), 4000 + len(data))
                    file.write(f"{name} {words[name]}\n")
                    soundfile.write(os.path.join(folder, name + ".flac"), data[name], RATE)
        for source in "LibriSpeech", "LibriSpeech/dev-clean":
            listed = os.path.join(self.folder, "libri.csv")
            self.assertEqual(larder.index(os.path.join(self.folder, source), listed), 9)
            with self.loader(self.running, listed, 4, pipeline=MONO, columns=["text", "frames"],
                             with_paths=True) as loader:
                seen = {}
                for clips, labels, _, paths, texts, frames in loader:
                    for one, label, path, text, n in zip(clips, labels.tolist(), paths, texts, frames.tolist()):
                        seen[os.path.basename(path)[:-5]] = text, n, label
                        np.testing.assert_array_equal(one, floats(data[os.path.basename(path)[:-5]][:4000]))
            self.assertEqual(seen, {name: (words[name], len(data[name]), 1 if name.startswith("84") else 0)
                                    for name in words})


class Arrays(Case):
    def test_rows_of_tokens(self):
        """uint16 tokens of one length: rows of a .npy where they lie, and .npy files in a store, each exactly once,
        going on from a saved state in the middle of an epoch."""
        daemon = self.daemon(CONFIG)
        tokens = np.random.default_rng(1).integers(0, 65_536, (100, 64)).astype(np.uint16)
        np.save(os.path.join(self.folder, "tokens.npy"), tokens)
        listed, store = os.path.join(self.folder, "tokens.csv"), os.path.join(self.folder, "tokens.store")
        self.assertEqual(larder.index(os.path.join(self.folder, "tokens.npy"), listed, format="array"), 100)
        for number, row in enumerate(tokens):
            folder = os.path.join(self.folder, "rows", f"{number // 50}")
            os.makedirs(folder, exist_ok=True)
            np.save(os.path.join(folder, f"{number:03d}.npy"), row)
        subprocess.run([os.path.join(BIN, "larder"), "pack", "--all-files", os.path.join(self.folder, "rows"), store,
                        "--quiet"], check=True)
        pipeline = [larder.Array("uint16", 64)]
        for source in listed, store:
            with self.subTest(source=source):
                seen = []
                with self.loader(daemon, source, 8, pipeline=pipeline, labels=[0] * 100) as loader:
                    for number, (rows, _, _) in enumerate(loader):
                        self.assertEqual((rows.dtype, rows.shape[1:]), (np.uint16, (64,)))
                        seen += [row.tobytes() for row in rows]
                        if number == 4:
                            break
                    state = loader.state_dict()
                with self.loader(daemon, source, 8, pipeline=pipeline, labels=[0] * 100) as loader:
                    loader.load_state_dict(state)
                    for rows, _, _ in loader:
                        seen += [row.tobytes() for row in rows]
                self.assertEqual(sorted(seen), sorted(row.tobytes() for row in tokens))
        with self.assertRaisesRegex(larder.BadSample, "other_size"):
            with self.loader(daemon, store, 8, pipeline=[larder.Array("int16", 64)]) as loader:
                next(iter(loader))
        with self.assertRaisesRegex(larder.InvalidArgument, "array stands alone"):
            self.loader(daemon, store, 8, pipeline=[larder.Array("uint16", 64), "to_mono"])


if __name__ == "__main__":
    main()
