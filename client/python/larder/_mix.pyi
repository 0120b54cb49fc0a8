from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from ._own import OnBatch
from .loader import Loader

_Source = str | PathLike[str] | list[str] | Mapping[str, Any] | Loader

class Mix:
    rows: dict[str, int]
    classes: list[str]
    last_parts: npt.NDArray[np.int64] | None
    last_ids: npt.NDArray[np.int64] | None
    last_indices: npt.NDArray[np.int64] | None
    def __init__(
        self,
        parts: Mapping[str, tuple[_Source, float]],
        pipeline: Any = None,
        batch_size: SupportsIndex = 64,
        *,
        samples: SupportsIndex | None = None,
        labels: Literal["own", "names", "offset"] | None = None,
        seed: SupportsIndex = 0,
        transform: Callable[..., Any] | OnBatch | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        as_dict: Sequence[str] | None = None,
        pin_memory: bool = False,
        with_ids: bool = False,
        with_paths: bool = False,
        columns: str | Iterable[str] = (),
        name: str | None = None,
        state: dict[str, Any] | None = None,
        **options: Any,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def loaders(self) -> dict[str, Loader]: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def dataset_size(self) -> int: ...
    @property
    def class_to_idx(self) -> dict[str, int]: ...
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def lost(self) -> int: ...
    def stats(self) -> dict[str, Any]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def sampler(self) -> Mix: ...
    def set_epoch(self, epoch: SupportsIndex) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Mix: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
