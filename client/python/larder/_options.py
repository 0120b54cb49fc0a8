"""What the arguments of a Loader mean: checked, and as the wire has them."""

import difflib
import operator
import os
import re
import warnings

from . import _list_file, _wire, samplers, subset as subset_module
from .errors import InvalidArgument

_OUTPUTS = ("auto", "torch", "numpy")


def job(dataset, pipeline, batch_size, drop_last, shuffle, epochs, seed, prefetch, bad_samples, subset, augment,
         all_files, relabel, weight, repeat=1, sampler=None, deal="epoch", mix=None):
    """pipeline: as JSON text."""
    try:
        fits = _wire.WEIGHT_MIN <= weight <= _wire.WEIGHT_MAX  # nor does what is no number
    except TypeError:
        fits = False
    if not fits:
        raise InvalidArgument(f"weight is {weight!r}, not {_wire.WEIGHT_MIN} to {_wire.WEIGHT_MAX}")
    for what, value, known in (("shuffle", shuffle, _wire.SHUFFLES), ("bad_samples", bad_samples, _wire.BAD_POLICIES),
                               ("augment", augment, _wire.AUGMENTS), ("deal", deal, _wire.DEALS)):
        if value not in known:
            raise InvalidArgument(f"{what} is {value!r}, not one of {', '.join(repr(word) for word in known)}")
    flags = _wire.AUGMENTS[augment]
    subset, sets = subset_module.to_wire(subset)
    for on, flag in ((drop_last, _wire.DROP_LAST), (relabel, _wire.RELABEL), (all_files, _wire.ALL_FILES)):
        flags |= flag if on else 0
    epochs_are = {"sampler": _wire.ONCE, "copies": 0, "draws": 0, "weights": b"", **samplers.to_wire(repeat, sampler)}
    if epochs_are["sampler"] and _wire.SHUFFLES[shuffle] != _wire.SHUFFLES["dependent"]:
        raise InvalidArgument(f"shuffle is {shuffle!r}, and repeat=, Weights and Balanced draw samples in the daemon's "
                              "order: leave shuffle out")
    mix = mix_of(deal, shuffle, mix)
    return _wire.Register(
        batch_size=whole("batch_size", batch_size, 1, _wire.BATCH_MAX),
        prefetch=whole("prefetch", prefetch, 1, _wire.CREDITS_MAX), world_size=1, rank=0,
        epochs=0 if epochs is None else whole("epochs", epochs, 1, _wire.EPOCHS_MAX),
        shuffle=_wire.SHUFFLES[shuffle], bad_policy=_wire.BAD_POLICIES[bad_samples],
        flags=flags, seed=whole("seed", seed, 0, 2**64 - 1), weight=float(weight),
        local_world_size=0, local_first=0, name=b"", dataset=path_of(dataset),
        pipeline=pipeline, subset=subset, sets=sets, deal=_wire.DEALS[deal], mix=mix, **epochs_are)


def mix_of(deal, shuffle, mix):
    """mix=, in parts of MIX_ALL."""
    if deal != "home":
        if mix is not None:
            raise InvalidArgument(f"mix is {mix!r}, and it says how many chunks leave their homes each epoch with "
                                  "deal=\"home\", which is not given: give it, or leave mix out")
        return 0
    if _wire.SHUFFLES[shuffle] != _wire.SHUFFLES["dependent"]:
        raise InvalidArgument(f"shuffle is {shuffle!r}, whose order says which rank gets which sample, and deal is "
                              "\"home\": leave one of the two out")
    try:
        part = 0.1 if mix is None else float(mix)
    except (TypeError, ValueError, OverflowError):
        part = -1.0
    if not 0 <= part <= 1:
        raise InvalidArgument(f"mix is {mix!r}, not a part of the chunks, 0 to 1")
    return round(part * _wire.MIX_ALL)


# A DataLoader's arguments, and what does the same here.
_FOREIGN = {
    "num_workers": "the daemon has the threads, for all jobs together (threads.workers in its configuration)",
    "batch_sampler": "batch_size=, drop_last= and subset= say how batches are made",
    "worker_init_fn": "there are no worker processes, and seed= is what the order and the augmentation depend on",
    "multiprocessing_context": "there are no worker processes",
    "persistent_workers": "there are no worker processes, and the daemon stays",
    "prefetch_factor": "prefetch= says how many batches are requested ahead",
    "generator": "seed= is what the order depends on, with shuffle=\"strict\"",
    "in_order": "ordered=True gives batches in planned order",
    "pin_memory_device": "larder.to_device moves batches to a device, through pinned memory",
    "target_transform": "labels= gives other labels",
}


def refuse(foreign, known):
    """Raises where a Loader was given an argument that it has not; known: those that it has."""
    for name in foreign:
        if name in _FOREIGN:
            raise InvalidArgument(f"{name}= is an argument of a torch DataLoader or dataset, and not of a "
                                  f"larder.Loader: {_FOREIGN[name]}. Leave it out")
        near = difflib.get_close_matches(name, known, 1)
        raise TypeError(f"a larder.Loader has no argument {name!r}: "
                        f"{f'did you mean {near[0]}=? ' if near else ''}help(larder.Loader) has them all")


def whole(what, value, least, most):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise InvalidArgument(f"{what} is {value!r}, not a whole number")
    if not least <= number <= most:
        raise InvalidArgument(f"{what} is {number}, not {least} to {most}")
    return number


def seconds(what, value):
    number = float(value) if hasattr(value, "__float__") else -1.0
    if not number >= 0:
        raise InvalidArgument(f"{what} is {value!r}, not a number of seconds, 0 or more")
    return number


def path_of(dataset):
    """A folder as an absolute path, since the daemon has another working folder; a bare name that is no folder here is
    one of the daemon's configuration. A list of paths is the file that has them."""
    if isinstance(dataset, (list, tuple)):
        dataset = _list_file.made_of(dataset)
    try:
        text = os.path.expanduser(os.fspath(dataset))
    except TypeError:
        raise InvalidArgument(f"dataset is a {type(dataset).__name__}, and no folder's path or a dataset's name: for "
                              "part of a folder give subset=, and labels= for labels of your own. A torch Dataset can "
                              "be packed once: larder.pack(DATASET, \"NAME.store\")") from None
    scheme, is_url, _ = (text if isinstance(text, str) else os.fsdecode(text)).partition("://")
    if is_url and scheme.isalnum():
        if scheme == "file":
            raise InvalidArgument(f"dataset is {dataset!r}: give the folder's path itself, without file://")
        raise InvalidArgument(f"dataset is {dataset!r}, and Larder reads no {scheme}:// address: mount it as a folder "
                              "(mountpoint-s3, gcsfuse, rclone mount) and give that folder, or copy it to a disk; "
                              "`larder pack` makes one store of many small files")
    separator = "::" if isinstance(text, str) else b"::"  # tar shards may be several patterns
    return os.fsencode(separator.join(_absolute(part) for part in text.split(separator)))


def _absolute(text):
    slash = "/" if isinstance(text, str) else b"/"
    if slash in text or text in (os.curdir, os.pardir, b".", b"..") or os.path.isdir(text) or \
            os.fsdecode(text).endswith((".tar", *_list_file.ENDINGS)):
        text = os.path.abspath(os.path.expanduser(text))
    return text


def not_here(text):
    """An error's text of the daemon; where that knows no dataset of a name, which path is not here, whole, and what is
    called nearly so."""
    found = re.match(r'dataset "(.*)" is neither an absolute path nor a name', text)
    if not found:
        return text
    path = os.path.abspath(found[1])
    folder, name = os.path.split(path)
    near = difflib.get_close_matches(name, os.listdir(folder) if os.path.isdir(folder) else [], 1)
    return f"{path}: there is no such file or folder here, nor a dataset called {found[1]!r} in the daemon's " \
           f"configuration{f'. Did you mean {os.path.join(folder, near[0])}?' if near else ''}"


def labels_of_source(dataset, labels):
    """labels= where it says what the samples of tar shards, or of a list, have their labels from, and no labels; else
    None."""
    if not isinstance(labels, str):
        return None
    if _list_file.split(os.fsdecode(dataset)) is not None and not os.path.isfile(os.path.expanduser(labels)):
        return labels
    if labels in ("cls", "none") or labels.startswith("json:"):
        return labels
    return labels if is_shards(os.fsdecode(dataset)) and re.fullmatch(r"\w+", labels) and not os.path.isfile(labels) \
        else None


def is_shards(dataset):
    """Whether a dataset's text names tar shards; a folder of them is asked by its files."""
    if not os.path.isdir(dataset):
        return any(mark in dataset for mark in ("{", "*", "?", "::")) or dataset.endswith(".tar")
    with os.scandir(dataset) as entries:
        entries = [entry for entry in entries if not entry.name.startswith(".")]
        return any(entry.name.endswith(".tar") for entry in entries) and not any(map(os.DirEntry.is_dir, entries))


def with_labels(dataset, labels, mixed=True):
    """The dataset's text with what labels_of_source gives of labels, and where neighbours in shards are not mixed."""
    if not mixed and not is_shards(os.fsdecode(dataset)):
        raise InvalidArgument(f"mixed=False says that neighbours in tar shards are alike, and {os.fsdecode(dataset)!r} "
                              "names none: leave it out")
    dataset += b"" if mixed else b"#mixed=no"
    if labels is None:
        return dataset
    if not dataset.startswith(b"/"):
        raise InvalidArgument(f"labels is {labels!r}, and dataset a name of the daemon's configuration: write "
                              f"#labels={labels} behind the path there")
    return dataset + b"#labels=" + os.fsencode(labels)


def columns(names):
    """columns=: names of columns, in order."""
    names = (names,) if isinstance(names, str) else tuple(names or ())
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
        raise InvalidArgument(f"columns is {names!r}: give different names of columns, as loader.dataset.columns has "
                              "them")
    return names


def names_of_parts(names, count, zero_copy, of_columns):
    """as_dict: one name for each part of a batch; those of columns may be left out, which then have their own."""
    if names is None:
        return None
    if zero_copy:
        raise InvalidArgument("zero_copy gives larder.Batch objects, which are released as a whole: leave as_dict out, "
                              "or leave zero_copy out")
    names = (names,) if isinstance(names, str) else tuple(names)
    names += of_columns if len(names) == count - len(of_columns) else ()
    if len(names) != count or len(set(names)) != count or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"as_dict is {names!r}, and a batch has {count} parts (images, labels, then what "
                              "with_ids, with_paths and columns add): give each a name of its own")
    return names


def child_name(name):
    """The name of a copy's job in this process: the Loader's and the process number."""
    return name_with(name, b"-%d" % os.getpid())


def name_with(name, suffix):
    """A name with that behind it, and cut before it between two characters where it would be too long."""
    end = min(len(name), _wire.NAME_MAX - len(suffix))
    while end < len(name) and name[end] & 0xC0 == 0x80:  # the middle of a character
        end -= 1
    return name[:end] + suffix


def want_torch(output, zero_copy):
    if output not in _OUTPUTS:
        raise InvalidArgument(f"output is {output!r}, not one of {', '.join(repr(word) for word in _OUTPUTS)}")
    if output == "numpy" or (output == "auto" and zero_copy):
        return False
    try:
        import torch  # noqa: F401
    except (ImportError, OSError):  # OSError: a library that torch needs is missing
        if output == "torch":
            raise
        return False
    return True


def can_pin():
    import torch
    if torch.cuda.is_available():
        return True
    warnings.warn("pin_memory is on but torch finds no GPU; batches are in ordinary memory", stacklevel=3)
    return False
