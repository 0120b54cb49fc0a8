#!/usr/bin/env python3
"""DINO's ten views of each image, of one decode: a student learns what a slower copy of it says of the large ones.

    train_dino.py FOLDER
"""

import copy

import torch
from torch.nn.functional import normalize

from common import MEAN, SIDE, STD, arguments, larder, network, report

DIMS = 32


def student_loss(student, teacher):
    """Each of the student's views against each other one of the teacher's."""
    pairs = [(-target.softmax(1) * view.log_softmax(1)).sum(1).mean()
             for i, target in enumerate(teacher) for j, view in enumerate(student) if i != j]
    return sum(pairs) / len(pairs)


def main():
    options = arguments(__doc__, momentum=0.99)
    torch.manual_seed(0)
    loader = larder.Loader(options.folder, views=larder.recipes.DINO(SIDE, SIDE // 2), batch_size=options.batch_size,
                           output="torch", drop_last=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    student = network(DIMS).to(device)
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
    for epoch in range(options.epochs):
        for views, _ in larder.to_device(loader, device, normalize=(MEAN, STD)):
            said, wanted = ([normalize(model(view)) for view in part]
                            for model, part in ((student, views), (teacher, views[:2])))
            loss = student_loss([view / 0.1 for view in said], [view / 0.04 for view in wanted])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(teacher.parameters(), student.parameters()):
                    slow.lerp_(fast, 1 - options.momentum)
        print(f"epoch {epoch}: {len(views)} views of each image, loss {loss.item():.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
