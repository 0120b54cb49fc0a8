from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal, SupportsInt

def index(source: str | PathLike[str] | Iterable[str | PathLike[str]], destination: str | PathLike[str], *,
          format: Literal["zip", "mds", "tfrecord", "parquet", "lmdb", "hdf5", "npy", "mnist", "cifar", "librispeech",
                         "array", "coco"] | None = None,
          image: str | None = None, label: str | PathLike[str] | Iterable[SupportsInt | str] | Any | None = None,
          crc32: bool = True, masks: bool = False) -> int: ...
