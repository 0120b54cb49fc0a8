from collections.abc import Iterable
from os import PathLike
from typing import Any, Literal

def pack(
    source: Any, destination: str | PathLike[str] | None = None, *, workers: int = 8, image: str | None = None,
    label: str | Literal[False] | None = None, labels: str | None = None, classes: Iterable[str] | None = None,
    encode: Literal["png", "webp", "jpeg"] = "png", quality: int = 95, quiet: bool = False, **options: Any,
) -> None: ...
