from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, SupportsIndex, TypedDict

import numpy as np
import numpy.typing as npt

from ._dataset import BatchSampler, Dataset, Sampler
from ._epoch import Batch as Batch, Epoch
from ._own import OnBatch
from ._samples import Image
from .samplers import Balanced, Weights
from .subset import Subset
from .transforms import Operator, View

_Path = str | PathLike[str]
# Of what a list has operators and plain JSON beside each other, type checkers only know that it is of objects.
_Pipeline = Operator | str | dict[str, Any] | Iterable[object]

class _TorchSubset(Protocol):
    indices: Any
    dataset: Any

class _Stats(TypedDict):
    samples: int
    batches: int
    wait_s: float
    reconnects: int
    stall: dict[str, float] | None

class Loader:
    last_ids: npt.NDArray[np.int64] | None
    last_indices: npt.NDArray[np.int64] | None
    def __init__(
        self,
        dataset: _Path,
        pipeline: _Pipeline | View | None = None,
        batch_size: SupportsIndex = 64,
        *,
        views: SupportsIndex | Iterable[object] | None = None,
        pipelines: Mapping[int, _Pipeline | View] | None = None,
        drop_last: bool = False,
        shuffle: Literal["dependent", "strict", "none"] | bool = "dependent",
        epochs: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        prefetch: SupportsIndex = 2,
        bad_samples: Literal["skip", "replace", "error"] = "skip",
        subset: Subset | _TorchSubset | dict[str, Any] | str | None = None,
        augment: Literal["shared", "private"] = "shared",
        all_files: bool = False,
        relabel: bool = False,
        name: str | None = None,
        zero_copy: bool = False,
        output: Literal["auto", "torch", "numpy"] = "auto",
        with_ids: bool = False,
        socket: _Path | None = None,
        timeout: float | None = None,
        pin_memory: bool = False,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        job: str | None = None,
        ordered: bool = False,
        weight: float = 1.0,
        state: dict[str, Any] | None = None,
        reconnect: float = 60,
        labels: npt.ArrayLike | Mapping[Any, Any] | _Path | None = None,
        with_paths: bool = False,
        as_dict: Sequence[str] | None = None,
        local_world_size: SupportsIndex | None = None,
        transform: Callable[..., Any] | OnBatch | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        repeat: SupportsIndex = 1,
        sampler: Weights | Balanced | None = None,
        columns: str | Iterable[str] = (),
        mixed: bool = True,
        parts: Mapping[str, str | Image | None] | Iterable[str] | None = None,
        as_tuple: Iterable[str] | None = None,
        tv_tensors: bool = False,
        ragged: SupportsIndex = False,
        deal: Literal["epoch", "home"] = "epoch",
        mix: float | None = None,
        **foreign: Any,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Epoch: ...
    def __enter__(self) -> Loader: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    @property
    def dataset_size(self) -> int: ...
    @property
    def dataset(self) -> Dataset: ...
    @property
    def sampler(self) -> Sampler: ...
    @property
    def batch_sampler(self) -> BatchSampler: ...
    @staticmethod
    def collate_fn(parts: list[Any]) -> Any: ...
    prefetch_factor: None
    @property
    def classes(self) -> list[str]: ...
    @property
    def class_to_idx(self) -> dict[str, int]: ...
    @property
    def name(self) -> str: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def drop_last(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def weight(self) -> float: ...
    @property
    def lost(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    def set_epoch(self, epoch: SupportsIndex) -> None: ...
    def set_pipeline(
        self, pipeline: _Pipeline | View | None = None, views: SupportsIndex | Iterable[object] | None = None
    ) -> None: ...
    def stats(self) -> _Stats: ...
    def state_dict(self, part: bool = False) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any] | Sequence[dict[str, Any]]) -> None: ...
    def close(self) -> None: ...
