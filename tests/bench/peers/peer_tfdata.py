"""tf.data as its performance guide and TensorFlow's own ResNet have it: only the crop is decoded, and how much runs at
once is left to AUTOTUNE. Images end as uint8, which is the least to hand on."""

import job

PACKAGES = ("tensorflow-cpu",)


def available():
    try:
        import tensorflow as tf
    except ImportError as reason:
        return None, str(reason)
    return f"tensorflow {tf.__version__}", None


def as_bytes(image):
    import tensorflow as tf

    return tf.cast(image, tf.uint8)


def jittered(image):
    """ColorJitter(.4, .4, .4, .1), as SimCLR's TensorFlow code has it, always in this order."""
    import tensorflow as tf

    image = image / 255 * tf.random.uniform([], 0.6, 1.4)
    image = tf.image.random_saturation(tf.image.random_contrast(image, 0.6, 1.4), 0.6, 1.4)
    return as_bytes(255 * tf.clip_by_value(tf.image.random_hue(tf.clip_by_value(image, 0, 1), 0.1), 0, 1))


def normalized(image):
    return (image / 255 - job.MEAN) / job.STD


LISTS = {"crop": as_bytes, "jitter": jittered, "float32": normalized}


def image_of(size, antialias, whole=False, finish=as_bytes):
    """A function from (path, index) to (image, index)."""
    import tensorflow as tf

    def prepared_whole(path, index):
        """PNG: no part of one can be decoded."""
        image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.zeros([1, 0, 4]), aspect_ratio_range=[3 / 4, 4 / 3], area_range=[0.08, 1.0],
            min_object_covered=0.0, max_attempts=10, use_image_if_no_bounding_boxes=True)
        image = tf.image.resize(tf.slice(image, begin, extent), [size, size], antialias=antialias)
        image = tf.ensure_shape(tf.image.random_flip_left_right(image), [size, size, 3])
        return finish(image), index

    def prepared(path, index):
        encoded = tf.io.read_file(path)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(encoded), tf.zeros([1, 0, 4]), aspect_ratio_range=[3 / 4, 4 / 3],
            area_range=[0.08, 1.0], min_object_covered=0.0, max_attempts=10, use_image_if_no_bounding_boxes=True)
        y, x, _ = tf.unstack(begin)
        height, width, _ = tf.unstack(extent)
        image = tf.image.decode_and_crop_jpeg(encoded, tf.stack([y, x, height, width]), channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [size, size], antialias=antialias))
        return finish(image), index

    return prepared_whole if whole else prepared


def dataset(spec, antialias=False):
    """One epoch in batches, in another order each time. The recipes do not filter before they make images smaller."""
    import tensorflow as tf

    files = job.files_of(spec.folder)
    samples = tf.data.Dataset.from_tensor_slices((files, list(range(len(files))))).shuffle(len(files))
    whole = not all(name.lower().endswith((".jpg", ".jpeg")) for name in files)
    images = samples.map(image_of(job.SIZE, antialias, whole, LISTS[spec.list]), num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(job.BATCH)


def loader(spec):
    import tensorflow as tf

    batches = dataset(spec).prefetch(tf.data.AUTOTUNE)
    return batches.as_numpy_iterator
