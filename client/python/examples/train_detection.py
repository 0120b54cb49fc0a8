#!/usr/bin/env python3
"""Detection as torchvision's references do it for SSD: images and boxes, with their classes, changed alike.

    train_detection.py LIST

LIST is JSON Lines: {"image": "a.jpg", "boxes": [[left, top, right, bottom], …], "labels": [3, …]} an image.
larder.index makes one of COCO's instances_train2017.json.
"""

import torch

from common import MEAN, STD, arguments, larder, report

CELLS = 10  # a side


def network(classes):
    """For each of CELLS x CELLS cells the classes, of which 0 is none, and the box whose middle is in the cell."""
    layers = [torch.nn.LazyConv2d(16, 5, stride=4), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 5, stride=2),
              torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(CELLS), torch.nn.Conv2d(32, classes + 4, 1)]
    return torch.nn.Sequential(*layers)


def targets(boxes, labels, side):
    """What the cells of each image should say: a class, and a box in parts of the side."""
    wanted = torch.zeros(len(boxes), CELLS, CELLS, dtype=torch.int64)
    places = torch.zeros(len(boxes), 4, CELLS, CELLS)
    for image, (own, classes) in enumerate(zip(boxes, labels)):
        x, y = ((own[:, :2] + own[:, 2:]) / 2 * CELLS / side).long().clamp(0, CELLS - 1).T
        wanted[image, y, x] = classes
        places[image, :, y, x] = own.T / side
    return wanted, places


def main():
    options = arguments(__doc__, classes=91, side=300)
    torch.manual_seed(0)
    side = options.side
    steps = [larder.RandomPhotometricDistort(), larder.RandomZoomOut(fill=[123, 117, 104]), larder.RandomIoUCrop(),
             larder.RandomHorizontalFlip(), larder.SanitizeBoundingBoxes(), larder.Resize([side, side]),
             larder.ToDtype("float32", scale=True), larder.Normalize(MEAN, STD)]
    loader = larder.Loader(options.folder, steps, options.batch_size, output="torch", labels="none",
                           parts={"image": "image", "boxes": "boxes", "labels": "labels"})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = network(options.classes).to(device)
    model(torch.zeros(1, 3, side, side, device=device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    for epoch in range(options.epochs):
        total = seen = found = 0
        for batch in loader:
            wanted, places = (one.to(device) for one in targets(batch["boxes"], batch["labels"], side))
            made = model(batch["image"].to(device))
            has = (wanted > 0).unsqueeze(1)
            loss = torch.nn.functional.cross_entropy(made[:, 4:], wanted) + \
                torch.nn.functional.smooth_l1_loss(made[:, :4] * has, places)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            count = len(batch["boxes"])
            total, seen, found = total + loss.item() * count, seen + count, found + sum(map(len, batch["boxes"]))
        print(f"epoch {epoch}: {seen} images with {found} boxes, loss {total / seen:.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
