from typing import Any

class Rest:
    transforms: list[Any]
    why: str
    def __init__(self, transforms: Any, why: str, is_tensor: bool) -> None: ...
    def __call__(self, image: Any) -> Any: ...
