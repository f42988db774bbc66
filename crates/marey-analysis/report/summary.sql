-- One row.
WITH steps AS (
    SELECT
        max(step_count) AS step_count,
        max(window_nanos) AS total_nanos
    FROM step_summary
),
durations AS (
    SELECT
        avg(CAST(duration_nanos AS DOUBLE)) AS mean_step_nanos,
        percentile_cont(duration_nanos, 0.5) AS p50_step_nanos,
        percentile_cont(duration_nanos, 0.9) AS p90_step_nanos,
        CAST(max(duration_nanos) AS DOUBLE) AS max_step_nanos
    FROM raw.steps
),
used AS (
    SELECT
        count(*) AS device_count,
        100.0 * sum(busy_nanos) / nullif(sum(window_nanos), 0) AS busy_percent,
        100.0 * sum(compute_nanos) / nullif(sum(window_nanos), 0) AS compute_percent,
        100.0 * sum(exposed_communication_nanos) / nullif(sum(window_nanos), 0) AS exposed_communication_percent,
        100.0 * sum(idle_nanos) / nullif(sum(window_nanos), 0) AS idle_percent
    FROM gpu_time
),
names AS (
    SELECT string_agg(name, ', ' ORDER BY name) AS device_names
    FROM (
        SELECT d.name AS name
        FROM devices AS d
        INNER JOIN gpu_time AS g ON g.process_id = d.process_id AND g.device = d.device
        GROUP BY d.name
    )
),
-- The epochs of a training profiler that left some out, in one process, since ranks have equal epochs.
epochs AS (
    SELECT CASE
        WHEN recorded < total
        THEN concat(CAST(recorded AS VARCHAR), ' of ', CAST(total AS VARCHAR), '; sums and counts are of these')
    END AS recorded_epochs
    FROM (
        SELECT
            count(*) AS recorded,
            greatest(
                CAST(max(value) AS BIGINT) + 1,
                (
                    SELECT max(TRY_CAST(regexp_replace(value, '^.*epochs[^0-9]+([0-9]+).*$', '\1') AS BIGINT))
                    FROM metadata
                    WHERE key = 'training'
                )
            ) AS total
        FROM counters
        WHERE
            name = 'sampled_epoch'
            AND process_id = (SELECT min(process_id) FROM counters WHERE name = 'sampled_epoch')
    )
)
SELECT
    s.step_count AS step_count,
    CAST(s.total_nanos AS DOUBLE) AS total_nanos,
    d.mean_step_nanos AS mean_step_nanos,
    d.p50_step_nanos AS p50_step_nanos,
    d.p90_step_nanos AS p90_step_nanos,
    d.max_step_nanos AS max_step_nanos,
    -- In a trace, a process without a rank may represent a device or the profiler.
    (SELECT greatest(count(rank), CASE WHEN count(rank) = 0 THEN count(*) ELSE 0 END) FROM step_summary) AS process_count,
    (SELECT count(DISTINCT rank) FROM raw.processes WHERE rank IS NOT NULL) AS rank_count,
    v.device_count AS device_count,
    n.device_names AS device_names,
    v.busy_percent AS busy_percent,
    v.compute_percent AS compute_percent,
    v.exposed_communication_percent AS exposed_communication_percent,
    v.idle_percent AS idle_percent,
    (SELECT max(allocated_bytes) FROM raw.memory_events WHERE device IS NOT NULL) AS peak_bytes,
    (SELECT statement FROM recording_overhead ORDER BY percent DESC NULLS LAST, statement LIMIT 1) AS recording_overhead,
    e.recorded_epochs AS recorded_epochs
FROM steps AS s
CROSS JOIN durations AS d
CROSS JOIN used AS v
CROSS JOIN names AS n
CROSS JOIN epochs AS e
