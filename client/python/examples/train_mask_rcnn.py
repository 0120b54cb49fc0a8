#!/usr/bin/env python3
"""Detection with masks as torchvision's references do it: images as large as they are, in lists, with their targets.

    train_mask_rcnn.py LIST

LIST is what larder.index makes of COCO's instances_train2017.json with masks=True: {"image": "a.jpg", "boxes":
[[left, top, right, bottom], …], "labels": [3, …], "masks": [[[x, y, x, y, …], …], …]} an image. --pixels says how many
the largest image has. It needs torchvision.
"""

import torch
from torchvision.models.detection import MaskRCNN, faster_rcnn, mask_rcnn
from torchvision.models.detection.rpn import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

from common import arguments, larder, report

TARGETS = "boxes", "labels", "masks"


def network(classes, side):
    """A Mask R-CNN that is small; maskrcnn_resnet50_fpn(num_classes=classes) is the references' own."""
    backbone = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 5, stride=4, padding=2), torch.nn.ReLU(),
                                   torch.nn.Conv2d(16, 16, 3, stride=2, padding=1), torch.nn.ReLU())
    backbone.out_channels = 16
    return MaskRCNN(
        backbone, min_size=side, max_size=2 * side,
        rpn_anchor_generator=AnchorGenerator((tuple(side // part for part in (8, 4, 2)),), ((.5, 1., 2.),)),
        rpn_pre_nms_top_n_train=200, rpn_post_nms_top_n_train=50, rpn_batch_size_per_image=32,
        box_roi_pool=MultiScaleRoIAlign(["0"], 7, 2), box_head=faster_rcnn.TwoMLPHead(16 * 7 * 7, 64),
        box_predictor=faster_rcnn.FastRCNNPredictor(64, classes), box_batch_size_per_image=16,
        mask_roi_pool=MultiScaleRoIAlign(["0"], 14, 2), mask_head=mask_rcnn.MaskRCNNHeads(16, (16, 16), 1),
        mask_predictor=mask_rcnn.MaskRCNNPredictor(16, 16, classes))


def as_references(batch):
    """A batch as references/detection's loop takes it: a list of images, and a dictionary for each."""
    return batch["image"], [dict(zip(TARGETS, values)) for values in zip(*(batch[name] for name in TARGETS))]


def main():
    options = arguments(__doc__, classes=91, side=64, pixels=640 * 640)
    torch.manual_seed(0)
    steps = [larder.RandomIoUCrop(), larder.RandomHorizontalFlip(), larder.SanitizeBoundingBoxes(),
             larder.ToDtype("float32", scale=True, reciprocal=True)]  # as v2.ToDtype
    loader = larder.Loader(options.folder, steps, options.batch_size, ragged=options.pixels, output="torch",
                           labels="none", parts={"image": "image", "boxes": "boxes", "labels": "labels",
                                                 "masks": larder.InstanceMasks("masks")})
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = network(options.classes, options.side).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(options.epochs):
        total = seen = found = 0
        for images, targets in map(as_references, loader):
            images = [image.to(device) for image in images]
            targets = [{name: value.to(device) for name, value in target.items()} for target in targets]
            loss = sum(model(images, targets).values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen = total + loss.item() * len(images), seen + len(images)
            found += sum(len(target["masks"]) for target in targets)
        print(f"epoch {epoch}: {seen} images with {found} masks, loss {total / seen:.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
