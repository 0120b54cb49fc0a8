from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

class Weights:
    weights: npt.NDArray[np.float64]
    n: int
    def __init__(self, weights: npt.ArrayLike, n: SupportsIndex | None = None) -> None: ...

class Balanced:
    n: int
    def __init__(self, n: SupportsIndex | None = None) -> None: ...
