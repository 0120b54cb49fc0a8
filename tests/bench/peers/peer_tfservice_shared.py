"""The tf.data service with its cache for several trainers: jobs read from one window that slides over an endless
dataset. There are no epochs, so a job calls one as many batches as the dataset has. The window is 10 GB: Python has no
setting for it. What has left it, a slow job does not get."""

import itertools

import peer_tfdata
import peer_tfservice

PACKAGES = peer_tfdata.PACKAGES
LISTS = peer_tfdata.LISTS
available = peer_tfdata.available
server = peer_tfservice.server


def loader(spec):
    import job
    import tensorflow as tf

    service = tf.data.experimental.service
    batches = peer_tfdata.dataset(spec).repeat().apply(service.distribute(
        processing_mode=service.ShardingPolicy.OFF, service=spec.address, job_name="shared",
        cross_trainer_cache=service.CrossTrainerCache(trainer_id=f"job-{spec.index}"))).prefetch(tf.data.AUTOTUNE)
    endless = batches.as_numpy_iterator()
    return lambda: itertools.islice(endless, -(-spec.count // job.BATCH))
