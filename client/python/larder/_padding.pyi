from collections.abc import Iterable
from typing import Any

def pad(images: Iterable[Any], fill: float = 0, multiple: int = 1) -> tuple[Any, Any]: ...
