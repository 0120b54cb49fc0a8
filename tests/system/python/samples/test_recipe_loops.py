"""Loops of recipes that people have, with a Loader in the place of dataset and DataLoader: their transforms, their
batches and what they do with these stand here as in the recipes."""

import io
import json
import os
import random
import tarfile

import numpy as np

import above  # noqa: F401
from system import Case, files_of, larder, main, skip, tree

try:
    import torch
    import torchvision.transforms as tv
    from PIL import Image, ImageFilter, ImageOps

    from published import Cifar, cifar
except ImportError as error:
    skip(f"this Python has no torchvision: {error}")
try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2
except ImportError:
    v2 = tv_tensors = None
try:
    import datasets
    import transformers
    datasets.disable_progress_bars()
except ImportError:
    datasets = transformers = None
try:
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    import albumentations as A
    from albumentations.pytorch import ToTensorV2
except ImportError:
    A = None

SIDE = 32
NORM = tv.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


# ── classes that recipes have of their own ──

class GaussianBlur:
    """DeiT III's and DINO's."""

    def __init__(self, p=0.1, radius_min=0.1, radius_max=2.0):
        self.prob, self.radius_min, self.radius_max = p, radius_min, radius_max

    def __call__(self, image):
        if random.random() > self.prob:
            return image
        radius = random.uniform(self.radius_min, self.radius_max)
        return image.filter(ImageFilter.GaussianBlur(radius=radius))


class Solarization:
    def __init__(self, p=0.2):
        self.p = p

    def __call__(self, image):
        return ImageOps.solarize(image) if random.random() < self.p else image


class gray_scale:
    def __init__(self, p=0.2):
        self.p, self.transf = p, tv.Grayscale(3)

    def __call__(self, image):
        return self.transf(image) if random.random() < self.p else image


class MocoBlur:
    def __init__(self, sigma=(0.1, 2.0)):
        self.sigma = sigma

    def __call__(self, image):
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(self.sigma[0], self.sigma[1])))


class Halved(Solarization):
    """What looks like one of these and does something else."""

    def __call__(self, image):
        return ImageOps.solarize(image) if random.random() < self.p / 2 else image


class Stronger(GaussianBlur):
    def __call__(self, image):
        self.radius_max *= 1.01
        return super().__call__(image)


class RandomBlur(tv.RandomApply):
    """DINOv2's, which only gives RandomApply its arguments."""

    def __init__(self, *, p=0.5, radius_min=0.1, radius_max=2.0):
        super().__init__([tv.GaussianBlur(9, (radius_min, radius_max))], p)


if v2 is not None:
    class PadIfSmaller(v2.Transform):
        """That of references/segmentation."""

        def __init__(self, size, fill=0):
            super().__init__()
            self.size, self.fill = size, fill

        def transform(self, part, params):
            height, width = v2.functional.get_size(part)
            fill = self.fill[tv_tensors.Mask] if isinstance(part, tv_tensors.Mask) else 0
            return v2.functional.pad(part, [0, 0, max(0, self.size - width), max(0, self.size - height)], fill)

        _transform = transform  # 0.15 to 0.20


class Loops(Case):
    def open(self, daemon, dataset, *arguments, **options):
        loader = larder.Loader(dataset, *arguments, socket=daemon.socket, output="torch", **options)
        self.addCleanup(loader.close)
        return loader


class OwnClasses(Loops):
    def test_known(self):
        """Each becomes an operator, with its chance and its radius, and gives the same pixels."""
        for given, wanted in ((gray_scale(0.3), larder.RandomGrayscale(0.3)),
                              (Solarization(1.0), larder.RandomSolarize(128, 1.0)),
                              (GaussianBlur(0.4, 0.2, 1.5), larder.PilGaussianBlur([0.2, 1.5], 0.4)),
                              (MocoBlur([0.1, 2.0]), larder.PilGaussianBlur([0.1, 2.0], 1.0))):
            before = random.getstate()
            self.assertEqual(larder.from_torchvision([given]), [wanted])
            self.assertEqual(random.getstate(), before)
        blur, = larder.from_torchvision([RandomBlur(p=0.9)])
        self.assertEqual(blur, larder.RandomApply([larder.GaussianBlur([9, 9], [0.1, 2.0])], 0.9))
        for given in (Halved(0.5), Stronger(1.0), GaussianBlur(1.0, 2.0, 0.1)):
            with self.assertRaisesRegex(larder.InvalidArgument, f"transform 0, {type(given).__name__}"):
                larder.from_torchvision([given])
        with self.assertRaisesRegex(larder.InvalidArgument, "transform 1, Solarization"):
            larder.from_torchvision([tv.ToTensor(), Solarization(1.0)])

    def test_pixels(self):
        daemon, dataset = self.daemon(), tree(4, classes=2)
        for given in (gray_scale(1.0), Solarization(1.0), GaussianBlur(1.0, 1.25, 1.25), MocoBlur((0.5, 0.5))):
            compose = tv.Compose([tv.Resize((SIDE, SIDE)), given, tv.PILToTensor()])
            (images, _), = self.open(daemon, dataset, larder.from_torchvision(compose), 4, shuffle=False)
            for image, path in zip(images, files_of(dataset)):
                theirs = compose(Image.open(path).convert("RGB"))
                self.assertLessEqual((image.int() - theirs.int()).abs().max().item(), 3)


class Cifar10(Loops):
    def test_loop(self):
        """A script's own dataset with its transform, and its loop, to train and to test."""
        daemon = self.daemon()
        cifar(self.folder, 8)
        transform_train = tv.Compose([tv.RandomCrop(32, padding=4), tv.RandomHorizontalFlip(), tv.ToTensor(), NORM])
        trainset = Cifar(self.folder, train=True, transform=transform_train)
        testset = Cifar(self.folder, train=False, transform=tv.Compose([tv.ToTensor(), NORM]))
        trainloader = self.open(daemon, trainset, batch_size=16, shuffle=True)
        testloader = self.open(daemon, testset, batch_size=5, shuffle=False)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
        criterion, optimizer = torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(2):
            seen = []
            for batch_idx, (inputs, targets) in enumerate(trainloader):
                optimizer.zero_grad()
                loss = criterion(net(inputs), targets)
                loss.backward()
                optimizer.step()
                seen += targets.tolist()
            self.assertEqual((batch_idx + 1, sorted(seen)), (len(trainloader), sorted(trainset.targets)))
        total = 0
        with torch.no_grad():
            for inputs, targets in testloader:
                _, predicted = net(inputs).max(1)
                total += targets.size(0)
                torch.testing.assert_close(inputs, torch.stack([testset[total - len(inputs) + place][0]
                                                                for place in range(len(inputs))]))
        self.assertEqual(total, len(testset))


class DeiTIII(Loops):
    def test_loop(self):
        """Its 3-Augment as its augment.py makes it, and its repeated augmentation."""
        daemon, dataset = self.daemon(), tree(24, classes=2)
        primary = [tv.Resize(SIDE, interpolation=tv.InterpolationMode.BICUBIC),
                   tv.RandomCrop(SIDE, padding=4, padding_mode="reflect"), tv.RandomHorizontalFlip()]
        secondary = [tv.RandomChoice([gray_scale(p=1.0), Solarization(p=1.0), GaussianBlur(p=1.0)]),
                     tv.ColorJitter(0.3, 0.3, 0.3)]
        transform = tv.Compose(primary + secondary + [tv.ToTensor(), NORM])
        names = [step.name for step in larder.from_torchvision(transform)]
        self.assertEqual(names[:5], [step.name for step in larder.recipes.DeiT_III])
        loader = self.open(daemon, dataset, larder.from_torchvision(transform), batch_size=8, repeat=3)
        seen = 0
        for samples, targets in larder.Parts(loader, 3):
            self.assertEqual((samples.shape[1:], samples.dtype, targets.dtype),
                             ((3, SIDE, SIDE), torch.float32, torch.int64))
            seen += len(samples)
        self.assertEqual(seen, 24)


class Segmentation(Loops):
    def setUp(self):
        super().setUp()
        numbers = np.random.default_rng(2)
        for name in ("images", "masks"):
            os.mkdir(os.path.join(self.folder, name))
        for number, (width, height) in enumerate(((20, 24), (40, 28), (48, 64), (33, 17), (32, 32))):
            Image.fromarray(numbers.integers(0, 256, (height, width, 3), np.uint8)).save(
                os.path.join(self.folder, f"images/{number}.png"))
            Image.fromarray(numbers.integers(0, 21, (height, width), np.uint8)).save(
                os.path.join(self.folder, f"masks/{number}.png"))
        self.parts = {"image": "images/*.png", "mask": larder.Mask("masks/*.png", dtype="int64", fill=255)}

    def test_loop(self):
        daemon = self.daemon()
        steps = [larder.RandomResize(16, 64), larder.RandomHorizontalFlip(0.5), larder.PadIfSmaller(SIDE),
                 larder.RandomCrop(SIDE), larder.ToDtype("float32", scale=True), larder.Normalize(NORM.mean, NORM.std)]
        data_loader = self.open(daemon, self.folder, steps, 2, parts=self.parts, as_tuple=("image", "mask"))
        model = torch.nn.Conv2d(3, 21, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        count = 0
        for image, target in data_loader:
            output = model(image)
            loss = torch.nn.functional.cross_entropy(output, target, ignore_index=255)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.assertEqual(target.shape, (len(image), SIDE, SIDE))
            count += len(image)
        self.assertEqual(count, 5)

    def small(self, loader):
        """Where nothing is left to draw, padding and crop are the reference's, pixel for pixel."""
        for images, masks in loader:
            for number in (0,):
                image = np.array(Image.open(os.path.join(self.folder, f"images/{number}.png")))
                mask = np.array(Image.open(os.path.join(self.folder, f"masks/{number}.png")))
                wanted = np.zeros((SIDE, SIDE, 3), np.uint8)
                wanted[:image.shape[0], :image.shape[1]] = image
                np.testing.assert_array_equal(images[number].permute(1, 2, 0).numpy(), wanted)
                wanted = np.full((SIDE, SIDE), 255)
                wanted[:mask.shape[0], :mask.shape[1]] = mask
                np.testing.assert_array_equal(masks[number].numpy(), wanted)

    def test_small_images(self):
        steps = [larder.PadIfSmaller(SIDE), larder.RandomCrop(SIDE)]
        self.small(self.open(self.daemon(), self.folder, steps, 5, parts=self.parts, as_tuple=("image", "mask"),
                             shuffle=False))

    def test_presets(self):
        """The list of its presets for tv_tensors, as it is."""
        if v2 is None:
            self.skipTest("this torchvision has no transforms.v2 with tv_tensors")
        daemon = self.daemon()
        fills = {tv_tensors.Mask: 255, "others": 0}
        dtypes = {tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}
        both = v2.Compose([v2.ToImage(), v2.RandomResize(16, 64, antialias=True), v2.RandomHorizontalFlip(0.5),
                           PadIfSmaller(SIDE, fill=fills), v2.RandomCrop(SIDE), v2.ToDtype(dtypes, scale=True),
                           v2.Normalize(NORM.mean, NORM.std), v2.ToPureTensor()])
        loader = self.open(daemon, self.folder, larder.from_torchvision(both), 5, parts=self.parts,
                           as_tuple=("image", "mask"))
        for image, target in loader:
            self.assertEqual((image.shape, image.dtype, target.shape, target.dtype),
                             ((5, 3, SIDE, SIDE), torch.float32, (5, SIDE, SIDE), torch.int64))
        both = v2.Compose([v2.ToImage(), PadIfSmaller(SIDE, fill=fills), v2.RandomCrop(SIDE)])
        self.small(self.open(daemon, self.folder, larder.from_torchvision(both), 5, parts=self.parts,
                             as_tuple=("image", "mask"), shuffle=False))


class DataAugmentationDINO:
    """DINOv2's lists, as it makes them."""

    def __init__(self, large, small):
        def geometric(size, scale):
            return tv.Compose([tv.RandomResizedCrop(size, scale, interpolation=tv.InterpolationMode.BICUBIC),
                               tv.RandomHorizontalFlip(p=0.5)])

        jitter = tv.Compose([tv.RandomApply([tv.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), tv.RandomGrayscale(p=0.2)])
        normalize = tv.Compose([tv.ToTensor(), NORM])
        self.geometric_augmentation_global = geometric(large, (0.32, 1.0))
        self.geometric_augmentation_local = geometric(small, (0.05, 0.32))
        self.global_transfo1 = tv.Compose([jitter, RandomBlur(p=1.0), normalize])
        self.global_transfo2 = tv.Compose([jitter, RandomBlur(p=0.1), tv.RandomSolarize(threshold=128, p=0.2),
                                           normalize])
        self.local_transfo = tv.Compose([jitter, RandomBlur(p=0.5), normalize])


class DINOv2(Loops):
    def test_loop(self):
        """Its collate_fn makes crops and masks of the batch as of a DataLoader's."""
        daemon, dataset = self.daemon(), tree(12, classes=2)
        it = DataAugmentationDINO(SIDE, 16)

        def collate_fn(samples):
            def crops(which):
                return torch.stack([sample[0][which][place] for place in range(len(samples[0][0][which]))
                                    for sample in samples])

            masks = torch.from_numpy(np.random.default_rng(1).random((2 * len(samples), 16)) < 0.5)
            return {"collated_global_crops": crops("global_crops"), "collated_local_crops": crops("local_crops"),
                    "collated_masks": masks}

        loader = self.open(
            daemon, dataset, batch_size=4, collate_fn=collate_fn,
            views=[tv.Compose([it.geometric_augmentation_global, it.global_transfo1]),
                   tv.Compose([it.geometric_augmentation_global, it.global_transfo2]),
                   larder.View(tv.Compose([it.geometric_augmentation_local, it.local_transfo]), 8)],
            transform=lambda views: {"global_crops": views[:2], "local_crops": views[2:]})
        count = 0
        for data in loader:
            self.assertEqual((data["collated_global_crops"].shape, data["collated_global_crops"].dtype),
                             ((8, 3, SIDE, SIDE), torch.float32))
            self.assertEqual((data["collated_local_crops"].shape, len(data["collated_masks"])), ((32, 3, 16, 16), 8))
            count += 1
        self.assertEqual(count, 3)


class OpenClip(Loops):
    def test_loop(self):
        """Its shards of images and captions, its tokenizer, and the loop of its train_one_epoch."""
        daemon, captions = self.daemon(), {}
        with tarfile.open(os.path.join(self.folder, "00000.tar"), "w") as shard:
            for number, path in enumerate(files_of(tree(12, classes=2))):
                shard.add(path, f"{number:04}.jpg")
                text = f"a photo of number {number}".encode()
                member = tarfile.TarInfo(f"{number:04}.txt")
                member.size = len(text)
                shard.addfile(member, io.BytesIO(text))
                captions[tuple(text[:77])] = number

        def tokenizer(texts):
            tokens = torch.zeros(len(texts), 77, dtype=torch.long)
            for row, text in enumerate(texts):
                tokens[row, :len(text)] = torch.tensor(list(text.encode()))
            return tokens

        preprocess = tv.Compose([tv.RandomResizedCrop(SIDE, (0.9, 1), interpolation=tv.InterpolationMode.BICUBIC),
                                 tv.Lambda(lambda image: image.convert("RGB")), tv.ToTensor(), NORM])
        dataloader = self.open(
            daemon, os.path.join(self.folder, "{00000..00000}.tar"), larder.from_torchvision(preprocess), 4,
            drop_last=True, labels="none", columns=["txt"],
            transform=larder.OnBatch(lambda images, _, texts: (images, tokenizer(texts))))
        dataloader.num_batches, dataloader.num_samples = len(dataloader), dataloader.dataset_size
        seen = set()
        for i, batch in enumerate(dataloader):
            images, texts = batch
            self.assertEqual((images.shape, images.dtype), ((4, 3, SIDE, SIDE), torch.float32))
            seen |= {captions[tuple(row[row > 0].tolist())] for row in texts}
        self.assertEqual((i + 1, dataloader.num_batches, len(seen)), (3, 3, dataloader.num_samples))


class ImageClassification(Loops):
    def test_trainer(self):
        """Hugging Face's run_image_classification: its dataset, its list of transforms, its model and Trainer."""
        if datasets is None:
            self.skipTest("this Python has no datasets and transformers (pip install datasets transformers)")
        from larder.huggingface import Trainer
        daemon = self.daemon()
        dataset = datasets.load_dataset("imagefolder", data_dir=tree(24, classes=3),
                                        cache_dir=os.path.join(self.folder, "cache"))
        dataset.save_to_disk(os.path.join(self.folder, "saved"))
        dataset = datasets.load_from_disk(os.path.join(self.folder, "saved"))
        split = dataset["train"].train_test_split(0.25, seed=1)
        dataset["train"], dataset["validation"] = split["train"], split["test"]
        _train_transforms = tv.Compose([tv.RandomResizedCrop(SIDE), tv.RandomHorizontalFlip(), tv.ToTensor(), NORM])
        _val_transforms = tv.Compose([tv.Resize(SIDE), tv.CenterCrop(SIDE), tv.ToTensor(), NORM])
        config = transformers.ViTConfig(image_size=SIDE, patch_size=16, hidden_size=16, num_hidden_layers=1,
                                        num_attention_heads=2, intermediate_size=16,
                                        num_labels=len(dataset["train"].features["label"].names))
        made = {"batch_size": 6, "as_dict": ("pixel_values", "labels")}
        training_args = transformers.TrainingArguments(os.path.join(self.folder, "out"), num_train_epochs=2,
                                                       per_device_train_batch_size=6, report_to=[], use_cpu=True,
                                                       eval_strategy="epoch", save_strategy="no", disable_tqdm=True)
        trainer = Trainer(
            model=transformers.ViTForImageClassification(config), args=training_args,
            train_dataset=self.open(daemon, dataset["train"], larder.from_torchvision(_train_transforms), **made),
            eval_dataset=self.open(daemon, dataset["validation"], larder.from_torchvision(_val_transforms),
                                   shuffle=False, **made),
            compute_metrics=lambda p: {"accuracy": (np.argmax(p.predictions, axis=1) == p.label_ids).mean()})
        self.assertEqual(trainer.train().global_step, 6)
        metrics = trainer.evaluate()
        self.assertEqual(len(trainer.predict(trainer.eval_dataset).label_ids), 6)
        self.assertIn("eval_accuracy", metrics)


class Albumentations(Loops):
    """Hugging Face's scripts whose transforms are albumentations': the Loader gives samples as they are, in lists, and
    the script's own function of a batch makes the rest of them, as it does of its dataset's rows."""

    def setUp(self):
        super().setUp()
        if A is None or transformers is None:
            self.skipTest("this Python lacks packages (pip install albumentations transformers)")
        numbers = np.random.default_rng(3)
        self.sizes = [(40, 36), (48, 64), (33, 37), (56, 32)]
        self.images = [numbers.integers(0, 256, (*size, 3), np.uint8) for size in self.sizes]
        for number, image in enumerate(self.images):
            Image.fromarray(image).save(os.path.join(self.folder, f"{number}.png"))

    def dataloader(self, dataset, parts, collate_fn, **options):
        return self.open(self.daemon(), dataset, [], 2, parts=parts, ragged=True, labels="none",
                         collate_fn=lambda rows: collate_fn({name: [row[name] for row in rows] for name in rows[0]}),
                         **options)

    def open(self, daemon, dataset, *arguments, **options):
        loader = larder.Loader(dataset, *arguments, socket=daemon.socket, output="numpy", **options)
        self.addCleanup(loader.close)
        return loader


class SemanticSegmentation(Albumentations):
    def test_loop(self):
        """run_semantic_segmentation: a list of images and masks, its transforms, its preprocess_batch."""
        rows = []
        for number, (height, width) in enumerate(self.sizes):
            mask = np.full((height, width), number, np.uint8)
            Image.fromarray(mask).save(os.path.join(self.folder, f"mask{number}.png"))
            rows.append({"image": os.path.join(self.folder, f"{number}.png"),
                         "label": os.path.join(self.folder, f"mask{number}.png")})
        train_transforms = A.Compose([A.PadIfNeeded(SIDE, SIDE, border_mode=0), A.RandomCrop(SIDE, SIDE),
                                      A.HorizontalFlip(p=0.5), A.Normalize(NORM.mean, NORM.std), ToTensorV2()])

        def preprocess_batch(example_batch):
            pixel_values, labels = [], []
            for image, target in zip(example_batch["image"], example_batch["label"]):
                transformed = train_transforms(image=image, mask=target)
                pixel_values.append(transformed["image"])
                labels.append(transformed["mask"])
            return {"pixel_values": torch.stack(pixel_values).to(torch.float),
                    "labels": torch.stack(labels).to(torch.long)}

        loader = self.dataloader(rows, {"image": "image", "label": larder.Mask("label")}, preprocess_batch)
        config = transformers.SegformerConfig(num_labels=len(rows), hidden_sizes=[8] * 4, depths=[1] * 4,
                                              decoder_hidden_size=8, num_attention_heads=[1] * 4)
        model, seen = transformers.SegformerForSemanticSegmentation(config), []
        for batch in loader:
            self.assertTrue(torch.isfinite(model(**batch).loss))
            self.assertEqual(batch["pixel_values"].shape, (2, 3, SIDE, SIDE))
            seen += batch["labels"].flatten(1).unique(dim=1)[:, 0].tolist()
        self.assertEqual(sorted(seen), list(range(len(rows))))


class ObjectDetection(Albumentations):
    def test_loop(self):
        """run_object_detection: images with COCO's boxes, its transforms, its augment_and_transform_batch."""
        rows = [{"image": os.path.join(self.folder, f"{number}.png"), "image_id": number,
                 "objects": {"bbox": [[2, 3, 10 + number, 12]] * number, "category": list(range(number)),
                             "area": [12.0 * (10 + number)] * number}} for number in range(len(self.sizes))]
        transform = A.Compose(
            [A.Compose([A.SmallestMaxSize(max_size=SIDE), A.RandomSizedBBoxSafeCrop(height=SIDE, width=SIDE)], p=0.2),
             A.Perspective(p=0.1), A.HorizontalFlip(p=0.5), A.RandomBrightnessContrast(p=0.5)],
            bbox_params=A.BboxParams(format="pascal_voc", label_fields=["category"], clip=True))
        image_processor = transformers.DetrImageProcessor(size={"max_height": SIDE, "max_width": SIDE})

        def augment_and_transform_batch(examples):
            images, annotations = [], []
            for image_id, image, bbox, category, area in zip(examples["image_id"], examples["image"], examples["bbox"],
                                                             examples["category"], examples["area"]):
                output = transform(image=image, bboxes=bbox, category=category)
                images.append(output["image"])
                annotations.append({"image_id": int(image_id), "annotations": [
                    {"image_id": int(image_id), "category_id": int(kind), "iscrowd": 0, "area": float(size),
                     "bbox": [left, top, right - left, bottom - top]}
                    for kind, size, (left, top, right, bottom) in zip(output["category"], area, output["bboxes"])]})
            return image_processor(images=images, annotations=annotations, return_tensors="pt")

        parts = {"image": "image", "bbox": larder.Boxes("objects.bbox", format="XYWH"),
                 "category": larder.Labels("objects.category"), "area": larder.Labels("objects.area", dtype="float32")}
        listed, seen = os.path.join(self.folder, "metadata.jsonl"), {}
        with open(listed, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        for batch in self.dataloader(listed, parts, augment_and_transform_batch, columns=["image_id"]):
            self.assertEqual(len(batch["pixel_values"]), 2)
            seen.update((int(label["image_id"]), label["class_labels"].tolist()) for label in batch["labels"])
        self.assertEqual(seen, {number: list(range(number)) for number in range(len(rows))})


if __name__ == "__main__":
    main()
