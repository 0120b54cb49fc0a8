"""tf.data as in peer_tfdata.py, with the filter that torchvision, DALI and Larder apply when they make images smaller.
The pixels of peer_tfdata.py are coarser, for less work."""

import peer_tfdata

PACKAGES = peer_tfdata.PACKAGES
available = peer_tfdata.available


def loader(spec):
    import tensorflow as tf

    batches = peer_tfdata.dataset(spec, antialias=True).prefetch(tf.data.AUTOTUNE)
    return batches.as_numpy_iterator
