"""Clips with their words, as speech corpora have them, for larder.index."""

import os
from glob import iglob

from ._places import Fail, Place

_TRANSCRIPTS = ".trans.txt"
_DEPTHS = ("*/*", "*/*/*") # SPEAKER/CHAPTER of a part of LibriSpeech, or PART/SPEAKER/CHAPTER


def _transcripts(folder):
    return (path for depth in _DEPTHS
            for path in iglob(os.path.join(folder, depth, "*" + _TRANSCRIPTS)))


def is_librispeech(paths):
    return len(paths) == 1 and os.path.isdir(paths[0]) and next(_transcripts(paths[0]), None) is not None


def librispeech(paths, image, label):
    """The clips of a folder of LibriSpeech, or of one part of it, with their words, frames and speakers."""
    del image, label
    found = sorted(path for folder in paths for path in _transcripts(folder))
    speakers = {path: os.path.basename(os.path.dirname(os.path.dirname(path))) for path in found}
    numbers = {speaker: number for number, speaker in enumerate(sorted(set(speakers.values())))}
    for path in found:
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, _, text = line.strip().partition(" ")
                if name:
                    clip = os.path.join(os.path.dirname(path), name + ".flac")
                    yield Place(clip, label=numbers[speakers[path]], class_=speakers[path], text=text,
                                frames=_flac_frames(clip))


def _flac_frames(path):
    """How many frames a FLAC file says that it has: 36 bits of its first block."""
    try:
        with open(path, "rb") as file:
            start = file.read(26)
    except FileNotFoundError:
        raise Fail(f"{path} is not there, and its words are: fetch the corpus again") from None
    if len(start) < 26 or start[:4] != b"fLaC":
        raise Fail(f"{path} is no FLAC file")
    return int.from_bytes(start[21:26], "big") & (1 << 36) - 1
