from collections.abc import Callable
from typing import Any

class OnBatch:
    function: Callable[..., Any]
    def __init__(self, function: Callable[..., Any]) -> None: ...
