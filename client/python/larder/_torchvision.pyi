from typing import Any

from ._rest import Rest
from .transforms import Operator

def from_torchvision(compose: Any) -> list[Operator]: ...
def split(compose: Any) -> tuple[list[Operator], Rest | None]: ...
