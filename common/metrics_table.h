/* metrics_table.h: METRIC(id, type, name, help, label names…), included by metrics.h and metrics.c. Of this table
 * tests/lint/metrics makes the tables of docs/reference/metrics.md, one of each group. */

/* group: daemon */
METRIC(BUILD_INFO, METRIC_GAUGE, "larder_build_info", "Always 1; the labels say what was built.", "version", "decoders",
       "compiler")
METRIC(START_TIME, METRIC_GAUGE, "larder_process_start_time_seconds",
       "When the daemon started, in seconds since the epoch.", NULL)
METRIC(CPU, METRIC_COUNTER, "larder_process_cpu_seconds_total", "Processor time that the daemon used, user and system.",
       NULL)
METRIC(RESIDENT, METRIC_GAUGE, "larder_process_resident_memory_bytes", "Resident memory of the daemon, arena included.",
       NULL)
METRIC(OPEN_FDS, METRIC_GAUGE, "larder_process_open_fds", "Open file descriptors of the daemon.", NULL)
METRIC(MAX_FDS, METRIC_GAUGE, "larder_process_max_fds", "File descriptors that the daemon may have open.", NULL)
METRIC(THREADS, METRIC_GAUGE, "larder_threads", "Worker threads by what they do now: load, prepare, or idle.", "role")
METRIC(SESSIONS, METRIC_GAUGE, "larder_sessions", "Connected clients.", NULL)
METRIC(JOBS, METRIC_GAUGE, "larder_jobs", "Registered jobs.", NULL)
METRIC(DATASETS, METRIC_GAUGE, "larder_datasets", "Datasets in the catalog.", NULL)

/* group: samples */
METRIC(SAMPLES_LOADED, METRIC_COUNTER, "larder_samples_loaded_total", "Samples whose encoded bytes were read.", NULL)
METRIC(READS, METRIC_COUNTER, "larder_reads_total",
       "Reads that brought samples: of a part of a chunk, or of all of it.", NULL)
METRIC(LOADED_BYTES, METRIC_COUNTER, "larder_loaded_bytes_total",
       "Encoded bytes read, from sources and storage classes.", NULL)
METRIC(ORIGIN_SAMPLES, METRIC_COUNTER, "larder_origin_samples_total",
       "Samples read, by where from: source, or a storage class by its number from 1.", "origin")
METRIC(ORIGIN_BYTES, METRIC_COUNTER, "larder_origin_bytes_total",
       "Encoded bytes of the samples that larder_origin_samples_total counts, by the same origins.", "origin")
METRIC(SAMPLES_DECODED, METRIC_COUNTER, "larder_samples_decoded_total",
       "Images decoded; one decode can make instances for several pipelines.", NULL)
METRIC(FROM_DECODED, METRIC_COUNTER, "larder_samples_from_decoded_total",
       "Samples prepared from their decoded form in memory, without a decode.", NULL)
METRIC(SAMPLES_PREPARED, METRIC_COUNTER, "larder_samples_prepared_total", "Instances prepared, each by one pipeline.",
       NULL)
METRIC(SAMPLES_DELIVERED, METRIC_COUNTER, "larder_samples_delivered_total", "Samples delivered, over all jobs.", NULL)
METRIC(BAD_SAMPLES, METRIC_COUNTER, "larder_bad_samples_total",
       "Samples that could not be read or prepared, by reason: unreadable, not_an_image, corrupt, too_large, "
       "no_memory, too_small, poisonous, other_size.",
       "reason")
METRIC(DELIVERED_FROM, METRIC_COUNTER, "larder_delivered_from_total",
       "Samples delivered, by where memory had them when they were planned: prepared (or being prepared), encoded, or "
       "read: in neither, so that they came from a storage class or the source.",
       "level")
METRIC(REDIRECTED, METRIC_COUNTER, "larder_redirected_picks_total",
       "Picks that another sample of their fiber served, because memory had that one: prepared, or encoded.", "level")
METRIC(LOAD_SECONDS, METRIC_HISTOGRAM, "larder_load_seconds", "How long a read took; it brings one sample or several.",
       NULL)
METRIC(PREPARE_SECONDS, METRIC_HISTOGRAM, "larder_prepare_seconds",
       "How long preparing a sample took, for all pipelines that it was prepared for at once.", NULL)
METRIC(SOURCE_RETRIES, METRIC_COUNTER, "larder_source_retries_total",
       "Reads that storage did not answer; they are tried again.", NULL)
METRIC(SOURCE_WAITS, METRIC_GAUGE, "larder_jobs_waiting_for_source", "Jobs that wait for storage that does not answer.",
       NULL)
METRIC(EVICTIONS, METRIC_COUNTER, "larder_evictions_total", "Residents evicted, by form: prepared or encoded.", "form")

/* group: storage */
METRIC(STORAGE_SIZE, METRIC_GAUGE, "larder_storage_size_bytes", "What a storage class may take of its disk.", "class")
METRIC(STORAGE_USED, METRIC_GAUGE, "larder_storage_used_bytes", "What a storage class takes of its disk.", "class")
METRIC(STORAGE_SAMPLES, METRIC_GAUGE, "larder_storage_samples", "Samples that a storage class has.", "class")
METRIC(STORAGE_PLANES, METRIC_GAUGE, "larder_storage_planes", "Samples that a storage class has in planes.", "class")
METRIC(STORAGE_STATE, METRIC_GAUGE, "larder_storage_state",
       "1 for the state that a storage class is in, 0 for the others: filling, full, read_only (writing failed), off "
       "(reading failed).",
       "class", "state")
METRIC(STORAGE_WRITTEN, METRIC_COUNTER, "larder_storage_written_bytes_total",
       "Encoded bytes written to a storage class.", "class")
METRIC(STORAGE_SKIPPED, METRIC_COUNTER, "larder_storage_skipped_total",
       "Samples not written to a storage class, because too many waited for that.", "class")
METRIC(STORAGE_CORRUPT, METRIC_COUNTER, "larder_storage_corrupt_total",
       "Samples that a storage class dropped, because their bytes were not those that were written.", "class")
METRIC(STORAGE_LEFT_ALONE, METRIC_GAUGE, "larder_storage_left_alone",
       "1 where a storage class is neither read nor written, because the source is quicker.", "class")

/* group: engine */
METRIC(ENGINE_STEP_SECONDS, METRIC_HISTOGRAM, "larder_engine_step_seconds",
       "How long a step of the engine took, in which nobody is delivered to.", NULL)
METRIC(ENGINE_STEP_LONGEST, METRIC_GAUGE, "larder_engine_step_longest_seconds",
       "The longest step of the engine since the daemon started.", NULL)

/* group: memory */
METRIC(SAMPLES_BUDGET, METRIC_GAUGE, "larder_samples_budget_bytes", "Budget for prepared and encoded samples together.",
       NULL)
METRIC(ARENA_BUDGET, METRIC_GAUGE, "larder_arena_budget_bytes", "The most that the arena may take.", NULL)
METRIC(ARENA_RESERVED, METRIC_GAUGE, "larder_arena_reserved_bytes",
       "Memory that the arena takes at the moment; it grows by need.", NULL)
METRIC(ARENA_USED, METRIC_GAUGE, "larder_arena_used_bytes",
       "Arena bytes that hold instances. A full arena is no fault: it is cache.", NULL)
METRIC(ARENA_PINNED, METRIC_GAUGE, "larder_arena_pinned_bytes",
       "Arena bytes that nobody may evict: planned, being prepared, or held by clients.", NULL)
METRIC(ENCODED_BUDGET, METRIC_GAUGE, "larder_encoded_budget_bytes",
       "Budget for encoded samples in memory. Room moves between it and prepared samples (memory.samples).", NULL)
METRIC(ENCODED_USED, METRIC_GAUGE, "larder_encoded_used_bytes", "Encoded samples in memory, loads in flight included.",
       NULL)
METRIC(ENCODED_DECODED, METRIC_GAUGE, "larder_encoded_decoded_bytes",
       "What decoded forms take of the memory of encoded samples.", NULL)
METRIC(ENCODED_DECODED_SAMPLES, METRIC_GAUGE, "larder_encoded_decoded_samples",
       "Samples whose decoded form is in memory.", NULL)
METRIC(ENCODED_AHEAD, METRIC_GAUGE, "larder_encoded_look_ahead_bytes",
       "Encoded bytes of all that jobs look ahead: above the budget reads wait for room.", NULL)
METRIC(SCRATCH_BUDGET, METRIC_GAUGE, "larder_scratch_budget_bytes", "Memory that workers decode and augment in.", NULL)
METRIC(SCRATCH_USED, METRIC_GAUGE, "larder_scratch_used_bytes",
       "Of the scratch memory, what worker threads may keep, and what large images have taken besides.", NULL)
METRIC(SCRATCH_WAITS, METRIC_COUNTER, "larder_scratch_waits_total",
       "Times that an image waited for memory to be decoded in.", NULL)
METRIC(HISTORY, METRIC_GAUGE, "larder_history_bytes",
       "Memory of what the daemon remembers of the last day, at most, and of its last statuses.", NULL)
METRIC(COLUMNS, METRIC_GAUGE, "larder_columns_bytes",
       "Memory of the columns of datasets that scripts asked for: labels, keys, texts; and of boxes, points.", NULL)
METRIC(CATALOGS, METRIC_GAUGE, "larder_catalogs_bytes",
       "Memory of what is known of datasets' samples: their paths, the rest (samples), and that by which several "
       "datasets find the samples that they share (identities). limits.catalogs is the most of the first two.",
       "of")
METRIC(AHEAD_SHORTENED, METRIC_COUNTER, "larder_look_ahead_shortened_total",
       "Times that a job gave look-ahead back because others needed the arena.", NULL)

/* group: jobs */
METRIC(JOB_DELIVERED, METRIC_COUNTER, "larder_job_samples_delivered_total", "Samples delivered to a job.", "job")
METRIC(JOB_SHARED, METRIC_COUNTER, "larder_job_samples_shared_total",
       "Samples delivered to a job from an instance that was prepared for another job.", "job")
METRIC(JOB_BATCHES, METRIC_COUNTER, "larder_job_batches_delivered_total", "Batches delivered to a job's queue.", "job",
       "rank")
METRIC(JOB_STALL, METRIC_COUNTER, "larder_job_stall_seconds_total",
       "Time in which a queue's client stood still: it had asked for a batch, had none left, and the next was not "
       "ready. The causes: its samples had still to be read (load) or prepared (prepare), the arena or the job's quota "
       "had no room (room), other ranks had to end or begin their epoch (rank).",
       "job", "rank", "cause")
METRIC(JOB_WAIT_SECONDS, METRIC_HISTOGRAM, "larder_job_batch_wait_seconds",
       "How long a job's clients stood still for a batch; 0 for most, if all is well.", "job")
METRIC(JOB_BATCH_SECONDS, METRIC_HISTOGRAM, "larder_job_batch_interval_seconds",
       "Time from one batch of a rank to its next.", "job")
METRIC(JOB_PREPARED, METRIC_COUNTER, "larder_job_samples_prepared_total",
       "Instances that were prepared because this job wanted them first.", "job")
METRIC(JOB_SHARING, METRIC_GAUGE, "larder_job_sharing_factor",
       "Samples delivered to a job for each instance that was prepared for it: 1 for a job that is alone, more when it "
       "gets what was prepared for others. Not there while nothing was prepared for it.",
       "job")
METRIC(JOB_LEASES, METRIC_GAUGE, "larder_job_leases", "Batches that a rank's client has and has not given back.", "job",
       "rank")
METRIC(JOB_LEASE_AGE, METRIC_GAUGE, "larder_job_oldest_lease_seconds",
       "How long a rank's client has had the oldest batch that it has not given back.", "job", "rank")
METRIC(JOB_DEPTH, METRIC_GAUGE, "larder_job_queue_depth_batches", "Ready batches in a queue.", "job", "rank")
METRIC(JOB_HELD, METRIC_GAUGE, "larder_job_held_slots",
       "Arena slots that the job pins: planned, ready or held by its clients.", "job", "rank")
METRIC(JOB_AHEAD, METRIC_GAUGE, "larder_job_look_ahead_batches",
       "Batches that each queue of a job looks ahead now, by need and quota.", "job")
METRIC(JOB_EPOCH, METRIC_GAUGE, "larder_job_epoch", "The epoch that a job is in, from 0.", "job")
METRIC(JOB_REMAINING, METRIC_GAUGE, "larder_job_remaining_samples",
       "Samples that the job has still to be given in this epoch.", "job")
METRIC(JOB_BAD, METRIC_COUNTER, "larder_job_bad_samples_total", "Bad samples that a job met.", "job")
METRIC(JOB_WEIGHT, METRIC_GAUGE, "larder_job_weight",
       "The job's weight: its share of the work where jobs contend for it.", "job")

/* group: governor */
METRIC(GOVERNOR_PREPARERS, METRIC_GAUGE, "larder_governor_preparers",
       "Threads with which as much is prepared as with all.", NULL)
METRIC(GOVERNOR_LOADERS, METRIC_GAUGE, "larder_governor_loaders",
       "Reads that the governor lets run at once, over all sources.", NULL)
METRIC(GOVERNOR_PREPARE_RATE, METRIC_GAUGE, "larder_governor_prepare_rate",
       "Samples a second that the preparers can do, as predicted.", NULL)
METRIC(GOVERNOR_LOAD_RATE, METRIC_GAUGE, "larder_governor_load_rate",
       "Samples a second that the loaders can read, as predicted.", NULL)
METRIC(GOVERNOR_MOVES, METRIC_COUNTER, "larder_governor_moves_total", "Decisions that changed the number of preparers.",
       NULL)
METRIC(GOVERNOR_JOB_LOADERS, METRIC_GAUGE, "larder_governor_job_loaders", "Loaders that the governor gives a job.",
       "job")
METRIC(GOVERNOR_JOB_AHEAD, METRIC_GAUGE, "larder_governor_job_ahead_batches",
       "Batches of look-ahead that would cover a job's latency, as predicted.", "job")
METRIC(QUEUE_LOADERS, METRIC_GAUGE, "larder_governor_queue_loaders", "Loaders that the governor gives a rank's queue.",
       "job", "rank")
METRIC(QUEUE_PENDING, METRIC_GAUGE, "larder_governor_queue_pending_samples",
       "Samples of a queue whose reads wait or are under way.", "job", "rank")
METRIC(QUEUE_LOAD, METRIC_GAUGE, "larder_governor_queue_load_seconds", "Thread time of loading a sample for a queue.",
       "job", "rank")
METRIC(QUEUE_PREPARE, METRIC_GAUGE, "larder_governor_queue_prepare_seconds",
       "Thread time of preparing a sample for a queue.", "job", "rank")
METRIC(QUEUE_TRAIN, METRIC_GAUGE, "larder_governor_queue_train_seconds",
       "A queue's training step: time between its client's requests, less waiting.", "job", "rank")
METRIC(QUEUE_LATE, METRIC_GAUGE, "larder_governor_queue_late_seconds",
       "How late a queue's next batch is predicted to be; below 0: in time.", "job", "rank")

/* group: cluster */
METRIC(CLUSTER_NODES, METRIC_GAUGE, "larder_cluster_nodes",
       "Nodes of the cluster, this one included, by state: UP, LEAVING, LOST, or UNKNOWN (listed, and not heard of).",
       "state")
METRIC(CLUSTER_GUESTS, METRIC_GAUGE, "larder_cluster_guests", "Other nodes' jobs to which this node gives samples.",
       NULL)
METRIC(CLUSTER_RECEIVED, METRIC_COUNTER, "larder_cluster_samples_received_total",
       "Samples that jobs here took from other nodes.", NULL)
METRIC(CLUSTER_GIVEN, METRIC_COUNTER, "larder_cluster_samples_given_total", "Samples sent to other nodes.", NULL)
METRIC(CLUSTER_MOVED, METRIC_COUNTER, "larder_cluster_samples_moved_total",
       "Samples that one node came not to give, and that another was asked for.", NULL)
METRIC(CLUSTER_REFUSED, METRIC_COUNTER, "larder_cluster_arrivals_refused_total",
       "Samples that came from other nodes and that no job took.", NULL)
METRIC(CLUSTER_REQUESTS, METRIC_COUNTER, "larder_cluster_requests_total", "Requests sent to other nodes, but probes.",
       NULL)
METRIC(CLUSTER_PROBES, METRIC_COUNTER, "larder_cluster_probes_total",
       "Probes sent to other nodes, which ask whether they live.", NULL)
