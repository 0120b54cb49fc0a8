from .transforms import Operator

class _List(list[Operator]):
    def __call__(self, size: int = 224) -> list[Operator]: ...

class _SimCLR(list[Operator]):
    def __call__(self, size: int = 224, strength: float = 1.0) -> list[Operator]: ...

class _Views(tuple[list[Operator], ...]):
    def __call__(self, size: int = 224) -> tuple[list[Operator], ...]: ...

class _MoCo_v3(tuple[list[Operator], ...]):
    def __call__(self, size: int = 224, crop_min: float = 0.2) -> tuple[list[Operator], ...]: ...

class _SwAV(tuple[list[Operator], ...]):
    def __call__(self, size: int = 224, small: int = 96) -> tuple[list[Operator], ...]: ...

class _MultiCrop(tuple[list[Operator], ...]):
    def __call__(self, size: int = 224, small: int = ..., scale: float = ...) -> tuple[list[Operator], ...]: ...

MEAN: tuple[float, float, float]
STD: tuple[float, float, float]
BEiT: _List
BYOL: _Views
BarlowTwins: _Views
ConvNeXt: _List
DINO: _MultiCrop
DINOv2: _MultiCrop
DeiT: _List
DeiT_III: _List
MAE: _List
MoCo_v1: _List
MoCo_v2: _List
MoCo_v3: _MoCo_v3
RSB: _List
SimCLR: _SimCLR
SwAV: _SwAV

__all__ = [
    "BEiT", "BYOL", "BarlowTwins", "ConvNeXt", "DINO", "DINOv2", "DeiT", "DeiT_III", "MAE", "MoCo_v1", "MoCo_v2",
    "MoCo_v3", "RSB", "SimCLR", "SwAV", "MEAN", "STD",
]
