SELECT
    time_nanos,
    lead(time_nanos) OVER (PARTITION BY process_id, device, stream ORDER BY time_nanos) - time_nanos AS duration_nanos,
    sum(change) OVER (PARTITION BY process_id, device, stream ORDER BY time_nanos) AS length,
    change,
    device,
    stream,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM (
    WITH queued AS (
        SELECT
            g.process_id AS process_id,
            g.device AS device,
            g.stream AS stream,
            l.start_nanos AS queued_nanos,
            greatest(min(g.start_nanos), l.start_nanos) AS begun_nanos
        FROM raw.gpu_activities AS g
        JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
        WHERE g.kind NOT IN ('sync', 'annotation')
        GROUP BY g.process_id, g.device, g.stream, g.correlation_id, l.start_nanos
    )
    SELECT
        process_id,
        device,
        stream,
        time_nanos,
        sum(sign) AS change
    FROM (
        SELECT process_id, device, stream, queued_nanos AS time_nanos, 1 AS sign FROM queued
        UNION ALL
        SELECT process_id, device, stream, begun_nanos AS time_nanos, -1 AS sign FROM queued
    )
    GROUP BY process_id, device, stream, time_nanos
    HAVING sum(sign) <> 0
)
