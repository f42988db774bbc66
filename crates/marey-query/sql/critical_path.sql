-- The event kind of each context: spans of autograd's own threads, spans that load data, and runtime calls by
-- what they wait for. A profiler's spans about its own recording are left out below.
WITH context_kinds AS (
    SELECT
        id AS context_id,
        name_id,
        CAST(
            CASE
                WHEN kind = 'runtime' THEN CASE
                    WHEN name(name_id) IN ('cudaDeviceSynchronize', 'cuCtxSynchronize', 'cudaFree', 'hipDeviceSynchronize', 'hipFree') THEN 'sync_device'
                    WHEN name(name_id) IN ('cudaStreamSynchronize', 'cuStreamSynchronize', 'hipStreamSynchronize') THEN 'sync_stream'
                    WHEN name(name_id) IN ('cudaEventSynchronize', 'cuEventSynchronize', 'hipEventSynchronize') THEN 'sync_event'
                    WHEN name(name_id) IN ('cudaMemcpy', 'hipMemcpy', 'hipMemcpyWithStream') THEN 'copy'
                    ELSE 'call'
                END
                WHEN starts_with(name(name_id), 'autograd::engine::evaluate_function') THEN 'backward'
                WHEN path(id) LIKE '%enumerate(DataLoader)#%' THEN 'data_loading'
                ELSE 'host'
            END AS VARCHAR
        ) AS kind
    FROM raw.contexts
),
classes AS (
    SELECT
        kind,
        name_id,
        CAST(
            CASE
                WHEN kind = 'memcpy' AND name(name_id) LIKE '%Pageable%' THEN 'pageable'
                WHEN kind IN ('kernel', 'memcpy', 'memset') THEN gpu_class(kind, name(name_id))
                ELSE 'compute'
            END AS VARCHAR
        ) AS class
    FROM raw.gpu_activities
    WHERE kind NOT IN ('sync', 'annotation')
    GROUP BY kind, name_id
),
-- A lane is a thread, or a device and a stream; an id combines a name and a context.
events AS (
    SELECT
        process_of(s.thread_id) AS process_id,
        p.kind AS kind,
        CAST(s.thread_id AS BIGINT) AS lane,
        s.start_nanos AS start_nanos,
        s.start_nanos + s.duration_nanos AS end_nanos,
        coalesce(s.correlation_id, CAST(0 AS BIGINT UNSIGNED)) AS correlation_id,
        CAST(0 AS BIGINT) AS on_lane,
        CAST(0 AS BIGINT UNSIGNED) AS on_correlation_id,
        CAST(s.name_id AS BIGINT) * 4294967296 + s.context_id AS id
    FROM raw.spans AS s
    JOIN context_kinds AS p ON p.context_id = s.context_id
    WHERE s.duration_nanos > 0 AND coalesce(name(s.category_id), '') <> 'Trace'
    UNION ALL
    SELECT
        g.process_id AS process_id,
        c.class AS kind,
        CAST(g.device AS BIGINT) * 4294967296 + g.stream AS lane,
        g.start_nanos AS start_nanos,
        g.start_nanos + g.duration_nanos AS end_nanos,
        coalesce(g.correlation_id, CAST(0 AS BIGINT UNSIGNED)) AS correlation_id,
        CAST(0 AS BIGINT) AS on_lane,
        CAST(0 AS BIGINT UNSIGNED) AS on_correlation_id,
        CAST(g.name_id AS BIGINT) * 4294967296 + coalesce(g.context_id, 0) AS id
    FROM raw.gpu_activities AS g
    JOIN classes AS c ON c.kind = g.kind AND c.name_id = g.name_id
    WHERE g.duration_nanos > 0
    UNION ALL
    -- Kineto's records of waits, if it was configured to record them.
    SELECT
        process_id,
        CAST(CASE WHEN wait = 'Stream Wait Event' THEN 'stream_wait' ELSE 'host_wait' END AS VARCHAR) AS kind,
        device * 4294967296 + stream AS lane,
        start_nanos,
        start_nanos + duration_nanos AS end_nanos,
        coalesce(correlation_id, CAST(0 AS BIGINT UNSIGNED)) AS correlation_id,
        device * 4294967296 + coalesce(
            CASE
                WHEN wait IN ('Stream Wait Event', 'Event Sync') THEN TRY_CAST(arg(args, 'wait_on_stream') AS INTEGER UNSIGNED)
                ELSE stream
            END,
            4294967295
        ) AS on_lane,
        coalesce(
            TRY_CAST(arg(args, 'wait_on_cuda_event_record_corr_id') AS BIGINT UNSIGNED),
            CAST(0 AS BIGINT UNSIGNED)
        ) AS on_correlation_id,
        CAST(0 AS BIGINT) AS id
    FROM (
        SELECT
            process_id,
            name(name_id) AS wait,
            CAST(device AS BIGINT) AS device,
            CAST(stream AS BIGINT) AS stream,
            start_nanos,
            duration_nanos,
            correlation_id,
            args(args_id, arg_numbers) AS args
        FROM raw.gpu_activities
        WHERE kind = 'sync' AND name(name_id) IN ('Stream Wait Event', 'Event Sync', 'Stream Sync', 'Context Sync')
    )
    UNION ALL
    SELECT
        process_id,
        'step' AS kind,
        CAST(thread_id AS BIGINT) AS lane,
        start_nanos,
        start_nanos + duration_nanos AS end_nanos,
        CAST(0 AS BIGINT UNSIGNED) AS correlation_id,
        CAST(0 AS BIGINT) AS on_lane,
        CAST(0 AS BIGINT UNSIGNED) AS on_correlation_id,
        CAST(number AS BIGINT) AS id
    FROM raw.steps
),
-- The path of each process in order: step number, position, start, end, bound, lane, id.
parts AS (
    SELECT
        process_id,
        unnest(
            critical_path(
                kind,
                lane,
                start_nanos,
                end_nanos,
                correlation_id,
                on_lane,
                on_correlation_id,
                id
            )
        ) AS part
    FROM (
        -- Column metadata differs between the rows of the union, which GROUP BY rejects; greatest() drops it.
        SELECT
            greatest(process_id, CAST(0 AS INTEGER UNSIGNED)) AS process_id,
            kind,
            lane,
            greatest(start_nanos, CAST(-9223372036854775808 AS BIGINT)) AS start_nanos,
            end_nanos,
            correlation_id,
            on_lane,
            on_correlation_id,
            greatest(id, CAST(0 AS BIGINT)) AS id
        FROM events
    )
    GROUP BY process_id
),
segments AS (
    SELECT
        -- The column inherits its uniqueness as a group key, although unnest() repeats it; greatest() drops that.
        greatest(process_id, CAST(0 AS INTEGER UNSIGNED)) AS process_id,
        part['step'] AS step,
        part['position'] AS position,
        part['start_nanos'] AS start_nanos,
        part['end_nanos'] AS end_nanos,
        CAST(part['bound'] AS VARCHAR) AS bound,
        starts_with(part['bound'], 'gpu_') AS is_device,
        part['lane'] AS lane,
        part['id'] AS id
    FROM parts
),
located AS (
    SELECT
        *,
        CASE WHEN NOT is_device THEN CAST(lane AS INTEGER UNSIGNED) END AS thread_id,
        CASE WHEN is_device THEN CAST(lane / 4294967296 AS INTEGER UNSIGNED) END AS device,
        CASE WHEN is_device THEN CAST(lane % 4294967296 AS INTEGER UNSIGNED) END AS stream,
        CAST(id / 4294967296 AS INTEGER UNSIGNED) AS name_id,
        CAST(nullif(id % 4294967296, 0) AS INTEGER UNSIGNED) AS context_id
    FROM segments
)
SELECT
    CAST(step AS INTEGER UNSIGNED) AS number,
    position,
    start_nanos,
    end_nanos,
    end_nanos - start_nanos AS duration_nanos,
    bound,
    name(name_id) AS name,
    path(context_id) AS path,
    device,
    stream,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id,
    context_id
FROM located
