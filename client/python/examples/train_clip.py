#!/usr/bin/env python3
"""Images and captions learn to find each other, as in CLIP: each image's own caption against all others of the batch.

    train_clip.py LIST

LIST is JSON Lines, or a CSV, with the columns image and caption.
"""

import torch

from common import MEAN, STD, arguments, larder, report

LETTERS, DIMS = 256, 32


class Pair(torch.nn.Module):
    """Two small networks, whose vectors are compared."""

    def __init__(self):
        super().__init__()
        self.seen = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, stride=2), torch.nn.ReLU(),
                                        torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(256, DIMS))
        self.read = torch.nn.EmbeddingBag(LETTERS, DIMS)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def loss(self, images, captions):
        letters = [torch.tensor(list(text.encode() or b" ")) for text in captions]
        starts = torch.tensor([0, *map(len, letters[:-1])]).cumsum(0)
        device = images.device
        read = self.read(torch.cat(letters).to(device), starts.to(device))
        seen, read = (torch.nn.functional.normalize(one, dim=1) for one in (self.seen(images), read))
        scores = self.scale.exp() * seen @ read.T
        own = torch.arange(len(scores), device=device)
        return (torch.nn.functional.cross_entropy(scores, own) + torch.nn.functional.cross_entropy(scores.T, own)) / 2


def main():
    options = arguments(__doc__, side=224)
    torch.manual_seed(0)
    steps = [larder.RandomResizedCrop(options.side, scale=(0.9, 1.0), interpolation="bicubic"),
             larder.ToDtype("float32", scale=True), larder.Normalize(MEAN, STD)]
    loader = larder.Loader(options.folder, steps, options.batch_size, output="torch", labels="none",
                           columns=["caption"], drop_last=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Pair().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
    for epoch in range(options.epochs):
        total = seen = 0
        for images, _, captions in loader:
            loss = model.loss(images.to(device, non_blocking=True), captions)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen = total + loss.item() * len(images), seen + len(images)
        print(f"epoch {epoch}: {seen} images with captions, loss {total / seen:.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
