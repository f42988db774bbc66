SELECT
    name(name_id) AS name,
    count,
    total_nanos,
    mean_nanos,
    min_nanos,
    max_nanos,
    stddev_nanos,
    busy_nanos,
    device,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM (
    SELECT
        process_id,
        device,
        name_id,
        count(*) AS count,
        sum(duration_nanos) AS total_nanos,
        avg(duration_nanos) AS mean_nanos,
        min(duration_nanos) AS min_nanos,
        max(duration_nanos) AS max_nanos,
        stddev_samp(duration_nanos) AS stddev_nanos,
        union_nanos(start_nanos, start_nanos + duration_nanos) AS busy_nanos
    FROM raw.gpu_activities
    WHERE kind = 'annotation'
    GROUP BY process_id, device, name_id
)
