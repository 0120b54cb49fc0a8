from typing import Any, Literal, SupportsIndex

class Image:
    where: str | None
    kind: str
    def __init__(self, where: str | None = None) -> None: ...
    def form(self) -> dict[str, Any]: ...

class Mask(Image):
    dtype: str
    fill: int | None
    def __init__(
        self,
        where: str | None = None,
        dtype: Literal["uint8", "int32", "int64"] = "uint8",
        fill: SupportsIndex | None = None,
    ) -> None: ...
