from collections.abc import Sequence
from typing import Any

from .loader import Loader

def merge_states(states: Sequence[dict[str, Any]]) -> dict[str, Any]: ...
def gather_state(loader: Loader) -> dict[str, Any]: ...
