from typing import Any

from .transforms import Operator

def from_torchvision(compose: Any) -> list[Operator]: ...
