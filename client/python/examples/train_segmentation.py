#!/usr/bin/env python3
"""Segmentation as torchvision's references do it: photographs and masks, resized, mirrored and cut alike.

    train_segmentation.py FOLDER

FOLDER has images/NAME.jpg and masks/NAME.png, whose pixels are class numbers; 255 is what the loss ignores.
"""

import torch

from common import MEAN, SIDE, STD, arguments, larder, report

IGNORED = 255


def network(classes):
    """Small, and as large at its end as the image."""
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, padding=2), torch.nn.ReLU(),
                               torch.nn.Conv2d(16, 16, 5, padding=2), torch.nn.ReLU(), torch.nn.Conv2d(16, classes, 1))


def main():
    options = arguments(__doc__, classes=21, side=SIDE)
    torch.manual_seed(0)
    side = options.side
    steps = [larder.RandomResize(side // 2, side * 2), larder.RandomHorizontalFlip(),
             larder.PadIfSmaller(side), larder.RandomCrop(side), larder.ToDtype("float32", scale=True),
             larder.Normalize(MEAN, STD)]
    mask = larder.Mask("masks/*.png", dtype="int64", fill=IGNORED)
    loader = larder.Loader(options.folder, steps, options.batch_size, parts={"image": "images/*.jpg", "mask": mask},
                           output="torch")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = network(options.classes).to(device)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=IGNORED)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(options.epochs):
        total = seen = 0
        for batch in loader:
            image, wanted = batch["image"].to(device), batch["mask"].to(device)
            loss = criterion(model(image), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen = total + loss.item() * len(image), seen + len(image)
        print(f"epoch {epoch}: {seen} images with masks, loss {total / seen:.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
