WITH steps AS (
    SELECT
        process_id,
        count(*) AS step_count,
        min(start_nanos) AS first_nanos,
        max(start_nanos + duration_nanos) AS last_nanos,
        avg(CAST(duration_nanos AS DOUBLE)) AS mean_nanos,
        percentile_cont(duration_nanos, 0.5) AS p50_nanos,
        percentile_cont(duration_nanos, 0.9) AS p90_nanos,
        percentile_cont(duration_nanos, 0.99) AS p99_nanos,
        min(duration_nanos) AS min_nanos,
        max(duration_nanos) AS max_nanos,
        stddev(CAST(duration_nanos AS DOUBLE)) AS stddev_nanos
    FROM raw.steps
    GROUP BY process_id
),
-- From the first to the last recorded event: the window of a process without steps.
windows AS (
    SELECT
        process_id,
        min(first_nanos) AS first_nanos,
        max(last_nanos) AS last_nanos
    FROM (
        SELECT
            process_of(thread_id) AS process_id,
            min(start_nanos) AS first_nanos,
            max(start_nanos + duration_nanos) AS last_nanos
        FROM raw.spans
        GROUP BY process_of(thread_id)
        UNION ALL
        SELECT
            process_id,
            min(start_nanos) AS first_nanos,
            max(start_nanos + duration_nanos) AS last_nanos
        FROM raw.gpu_activities
        GROUP BY process_id
    )
    GROUP BY process_id
)
SELECT
    coalesce(s.step_count, 0) AS step_count,
    greatest(coalesce(s.step_count, 0), 1) AS divisor,
    coalesce(s.first_nanos, w.first_nanos) AS first_nanos,
    coalesce(s.last_nanos, w.last_nanos) AS last_nanos,
    coalesce(s.last_nanos, w.last_nanos) - coalesce(s.first_nanos, w.first_nanos) AS window_nanos,
    s.mean_nanos AS mean_nanos,
    s.p50_nanos AS p50_nanos,
    s.p90_nanos AS p90_nanos,
    s.p99_nanos AS p99_nanos,
    s.min_nanos AS min_nanos,
    s.max_nanos AS max_nanos,
    s.stddev_nanos AS stddev_nanos,
    pid(w.process_id) AS pid,
    rank(w.process_id) AS rank,
    w.process_id AS process_id
FROM windows AS w
LEFT JOIN steps AS s ON s.process_id = w.process_id
