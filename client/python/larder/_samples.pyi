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

class Boxes(Image):
    format: str
    most: int | None
    padded: bool
    def __init__(
        self,
        where: str | None = None,
        format: Literal["XYXY", "XYWH", "CXCYWH"] = "XYXY",
        most: SupportsIndex | None = None,
        padded: bool = False,
    ) -> None: ...

class Points(Image):
    each: int | None
    most: int | None
    padded: bool
    def __init__(
        self,
        where: str | None = None,
        each: SupportsIndex | None = None,
        most: SupportsIndex | None = None,
        padded: bool = False,
    ) -> None: ...

class Labels(Image):
    dtype: str
    width: int | None
    most: int | None
    padded: bool
    def __init__(
        self,
        where: str | None = None,
        dtype: Literal["int64", "float32"] = "int64",
        width: SupportsIndex | None = None,
        most: SupportsIndex | None = None,
        padded: bool = False,
    ) -> None: ...

class InstanceMasks(Image):
    dtype: str
    most: int | None
    padded: bool
    def __init__(
        self,
        where: str | None = None,
        dtype: Literal["uint8", "bool"] = "uint8",
        most: SupportsIndex | None = None,
        padded: bool = False,
    ) -> None: ...
