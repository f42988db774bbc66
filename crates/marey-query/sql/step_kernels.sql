WITH
steps AS (
    SELECT
        process_id,
        number,
        start_nanos + duration_nanos AS end_nanos,
        row_number() OVER (PARTITION BY process_id ORDER BY start_nanos, number) AS position
    FROM raw.steps
),
-- Each call with the number of steps that had begun by then, which is the position of the last of them.
launches AS (
    SELECT
        process_id,
        correlation_id,
        time_nanos AS launch_nanos,
        sum(is_step) OVER (
            PARTITION BY process_id
            ORDER BY time_nanos, is_step DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS position
    FROM (
        SELECT
            process_id,
            correlation_id,
            start_nanos AS time_nanos,
            0 AS is_step
        FROM runtime_calls
        UNION ALL
        SELECT
            process_id,
            NULL AS correlation_id,
            start_nanos AS time_nanos,
            1 AS is_step
        FROM raw.steps
    )
)
SELECT
    s.number AS number,
    count(*) AS count,
    sum(CASE WHEN g.kind = 'kernel' THEN 1 ELSE 0 END) AS kernel_count,
    sum(g.duration_nanos) AS total_nanos,
    sum(CASE WHEN g.kind = 'kernel' THEN g.duration_nanos ELSE 0 END) AS kernel_nanos,
    union_nanos(g.start_nanos, g.start_nanos + g.duration_nanos) AS busy_nanos,
    min(g.start_nanos) AS start_nanos,
    max(g.start_nanos + g.duration_nanos) AS end_nanos,
    max(g.start_nanos + g.duration_nanos) - s.end_nanos AS end_delay_nanos,
    g.device AS device,
    pid(g.process_id) AS pid,
    rank(g.process_id) AS rank,
    g.process_id AS process_id
FROM raw.gpu_activities AS g
JOIN launches AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
JOIN steps AS s ON s.process_id = l.process_id AND s.position = l.position
WHERE g.kind IN ('kernel', 'memcpy', 'memset') AND l.launch_nanos < s.end_nanos
GROUP BY g.process_id, g.device, s.position, s.number, s.end_nanos
