from .transforms import Operator, View

class _List(list[Operator]):
    def __call__(self, size: int = 224) -> list[Operator]: ...

class _SimCLR(tuple[View, ...]):
    def __call__(self, size: int = 224, strength: float = 1.0) -> tuple[View, ...]: ...

class _Views(tuple[View, ...]):
    def __call__(self, size: int = 224) -> tuple[View, ...]: ...

class _MoCo_v3(tuple[View, ...]):
    def __call__(self, size: int = 224, crop_min: float = 0.2) -> tuple[View, ...]: ...

class _SwAV(tuple[View, ...]):
    def __call__(self, size: int = 224, small: int = 96) -> tuple[View, ...]: ...

class _MultiCrop(tuple[View, ...]):
    def __call__(self, size: int = 224, small: int = ..., scale: float = ...) -> tuple[View, ...]: ...

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
MoCo_v1: _Views
MoCo_v2: _Views
MoCo_v3: _MoCo_v3
RSB: _List
SimCLR: _SimCLR
SwAV: _SwAV

__all__ = [
    "BEiT", "BYOL", "BarlowTwins", "ConvNeXt", "DINO", "DINOv2", "DeiT", "DeiT_III", "MAE", "MoCo_v1", "MoCo_v2",
    "MoCo_v3", "RSB", "SimCLR", "SwAV", "MEAN", "STD",
]
