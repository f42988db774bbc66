SELECT
    name(name_id) AS name,
    kind,
    gpu_class(kind, name(name_id)) AS class,
    count,
    total_nanos,
    mean_nanos,
    min_nanos,
    max_nanos,
    stddev_nanos,
    100 * CAST(total_nanos AS DOUBLE) / nullif(sum(total_nanos) OVER (PARTITION BY process_id, device), 0)
        AS device_percent,
    device,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM (
    SELECT
        process_id,
        device,
        kind,
        name_id,
        count(*) AS count,
        sum(duration_nanos) AS total_nanos,
        avg(duration_nanos) AS mean_nanos,
        min(duration_nanos) AS min_nanos,
        max(duration_nanos) AS max_nanos,
        stddev_samp(duration_nanos) AS stddev_nanos
    FROM raw.gpu_activities
    WHERE kind IN ('kernel', 'memcpy', 'memset')
    GROUP BY process_id, device, kind, name_id
)
