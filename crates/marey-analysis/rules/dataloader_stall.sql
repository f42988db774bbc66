-- Of a process with steps only the threads that execute them: workers and the pin-memory thread load ahead.
WITH loads AS (
    SELECT
        w.process_id AS process_id,
        w.window_nanos AS window_nanos,
        w.divisor AS divisor,
        s.name_id AS name_id,
        s.start_nanos AS start_nanos,
        least(s.start_nanos + s.duration_nanos, w.last_nanos) AS end_nanos
    FROM raw.spans AS s
    JOIN step_summary AS w ON w.process_id = process_of(s.thread_id)
    LEFT JOIN (
        SELECT DISTINCT thread_id
        FROM raw.steps
    ) AS t ON t.thread_id = s.thread_id
    WHERE regexp_like(name(s.name_id), '^enumerate\(DataLoader\)|DataLoader\w*\.__next__|dataloader\.py\(\d+\): __next__|^next\(')
        AND (w.step_count = 0 OR t.thread_id IS NOT NULL)
        AND s.start_nanos >= w.first_nanos AND s.start_nanos < w.last_nanos
),
-- A row per load and device; one row with a null device if the process has none.
loads_of_devices AS (
    SELECT
        l.process_id AS process_id,
        l.window_nanos AS window_nanos,
        l.divisor AS divisor,
        d.device AS device,
        l.name_id AS name_id,
        l.start_nanos AS start_nanos,
        l.end_nanos AS end_nanos
    FROM loads AS l
    LEFT JOIN (
        SELECT process_id, device
        FROM raw.gpu_activities
        WHERE kind NOT IN ('sync', 'annotation')
        GROUP BY process_id, device
    ) AS d ON d.process_id = l.process_id
)
SELECT
    name(d.name_id) AS subject,
    CAST(
        CASE
            WHEN 100.0 * d.stall_nanos / d.window_nanos > {high_percent} THEN 'high'
            WHEN 100.0 * d.stall_nanos / d.window_nanos > {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    CAST(d.stall_nanos AS DOUBLE) / d.divisor AS impact_nanos,
    100.0 * d.stall_nanos / d.window_nanos AS impact_percent,
    CAST(d.stall_nanos AS DOUBLE) / d.divisor AS gain_nanos,
    CAST('measured' AS VARCHAR) AS confidence,
    rank(d.process_id) AS rank,
    d.process_id AS process_id,
    d.device AS device,
    CAST(d.load_nanos AS DOUBLE) / d.divisor AS load_nanos,
    CAST(d.load_nanos - d.stall_nanos AS DOUBLE) / d.divisor AS hidden_nanos,
    CASE WHEN d.device IS NULL THEN 'no device worked' ELSE 'the device was idle' END AS meanwhile,
    d.longest_nanos AS longest_nanos,
    d.load_count AS load_count
FROM (
    SELECT
        *,
        -- Of several devices, the one that stalled longest.
        row_number() OVER (PARTITION BY process_id ORDER BY stall_nanos DESC, device) AS position
    FROM (
        SELECT
            process_id,
            device,
            max(window_nanos) AS window_nanos,
            max(divisor) AS divisor,
            first_value(name_id ORDER BY coalesce(end_nanos - start_nanos, -1) DESC, name_id) FILTER (WHERE is_load) AS name_id,
            count(*) FILTER (WHERE is_load) AS load_count,
            max(end_nanos - start_nanos) FILTER (WHERE is_load) AS longest_nanos,
            coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE is_load), 0) AS load_nanos,
            coalesce(union_nanos(start_nanos, end_nanos), 0)
                - coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE NOT is_load), 0) AS stall_nanos
        FROM (
            SELECT
                process_id,
                device,
                window_nanos,
                divisor,
                name_id,
                start_nanos,
                end_nanos,
                true AS is_load
            FROM loads_of_devices
            UNION ALL
            SELECT
                process_id,
                device,
                NULL AS window_nanos,
                NULL AS divisor,
                NULL AS name_id,
                start_nanos,
                start_nanos + duration_nanos AS end_nanos,
                false AS is_load
            FROM raw.gpu_activities
            WHERE kind NOT IN ('sync', 'annotation')
        )
        GROUP BY process_id, device
    )
    WHERE load_count > 0
) AS d
WHERE d.position = 1
    AND d.window_nanos > 0
    AND d.stall_nanos > 0
    AND 100.0 * d.stall_nanos >= {min_percent} * d.window_nanos
ORDER BY impact_nanos DESC, d.process_id
LIMIT 5
