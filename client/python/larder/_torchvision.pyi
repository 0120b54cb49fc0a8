from typing import Any

from ._rest import Rest

# Of operators, or of views.
def from_torchvision(compose: Any) -> list[Any]: ...
def split(compose: Any) -> tuple[list[Any], Rest | None]: ...
