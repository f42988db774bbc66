SELECT
    name(name_id) AS name,
    kind,
    count,
    bytes,
    total_nanos,
    busy_nanos,
    CAST(bytes AS DOUBLE) * 1000000000 / nullif(known_nanos, 0) AS bytes_per_second,
    min_bytes_per_second,
    mean_bytes_per_second,
    max_bytes_per_second,
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
        sum(bytes) AS bytes,
        sum(duration_nanos) AS total_nanos,
        union_nanos(start_nanos, start_nanos + duration_nanos) AS busy_nanos,
        union_nanos(start_nanos, start_nanos + duration_nanos) FILTER (WHERE bytes IS NOT NULL) AS known_nanos,
        min(CAST(bytes AS DOUBLE) * 1000000000 / nullif(duration_nanos, 0)) AS min_bytes_per_second,
        avg(CAST(bytes AS DOUBLE) * 1000000000 / nullif(duration_nanos, 0)) AS mean_bytes_per_second,
        max(CAST(bytes AS DOUBLE) * 1000000000 / nullif(duration_nanos, 0)) AS max_bytes_per_second
    FROM raw.gpu_activities
    WHERE kind IN ('memcpy', 'memset')
    GROUP BY process_id, device, kind, name_id
)
