-- Copies from a device, with the call that issued them.
WITH copies AS (
    SELECT
        process_id,
        correlation_id,
        max(CASE WHEN regexp_like(name(name_id), 'Pageable') THEN 1 ELSE 0 END) AS pageable
    FROM raw.gpu_activities
    WHERE kind = 'memcpy' AND correlation_id > 0 AND regexp_like(name(name_id), 'DtoH|DeviceToHost')
    GROUP BY process_id, correlation_id
),
-- Calls in which the host waits for a device: synchronisation, and copies that end before the call does,
-- which are those to pageable memory and those by a synchronous call.
waits AS (
    SELECT
        w.process_id AS process_id,
        w.window_nanos AS window_nanos,
        w.divisor AS divisor,
        c.parent_id AS context_id,
        s.name_id AS name_id,
        s.start_nanos AS start_nanos,
        least(s.start_nanos + s.duration_nanos, w.last_nanos) AS end_nanos,
        -- Profilers wait for the devices when they stop: the last call, outside of all spans.
        (c.depth = 1 AND s.start_nanos = max(s.start_nanos) OVER (PARTITION BY w.process_id)) AS is_end
    FROM raw.spans AS s
    JOIN raw.contexts AS c ON c.id = s.context_id
    JOIN step_summary AS w ON w.process_id = process_of(s.thread_id)
    LEFT JOIN copies AS d ON d.process_id = process_of(s.thread_id) AND d.correlation_id = s.correlation_id
    WHERE kind(s.context_id) = 'runtime'
        AND s.start_nanos >= w.first_nanos AND s.start_nanos < w.last_nanos
        AND (
            regexp_like(name(s.name_id), '^(cuda(Device|Thread|Stream|Event)|hip(Device|Stream|Event)|cu(Ctx|Stream|Event))Synchronize')
            OR (regexp_like(name(s.name_id), 'Memcpy') AND (d.pageable = 1 OR (d.pageable = 0 AND NOT regexp_like(name(s.name_id), 'Async'))))
        )
),
-- The idle time of each process; of several devices, that of the one that was idle longest.
idle AS (
    SELECT
        process_id,
        max(idle_nanos) AS idle_nanos
    FROM (
        SELECT
            g.process_id AS process_id,
            max(w.window_nanos) - coalesce(
                union_nanos(
                    greatest(g.start_nanos, w.first_nanos),
                    greatest(least(g.start_nanos + g.duration_nanos, w.last_nanos), w.first_nanos)
                ), 0
            ) AS idle_nanos
        FROM raw.gpu_activities AS g
        JOIN step_summary AS w ON w.process_id = g.process_id
        WHERE g.kind NOT IN ('sync', 'annotation') AND g.start_nanos < w.last_nanos
        GROUP BY g.process_id, g.device
    )
    GROUP BY process_id
)
SELECT
    CAST(coalesce(nullif(path(p.context_id), ''), name(p.name_id)) AS VARCHAR) AS subject,
    CAST(
        CASE
            WHEN 100.0 * p.sync_nanos / p.window_nanos > {high_percent} THEN 'high'
            WHEN 100.0 * p.sync_nanos / p.window_nanos > {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    CAST(p.sync_nanos AS DOUBLE) / p.divisor AS impact_nanos,
    100.0 * p.sync_nanos / p.window_nanos AS impact_percent,
    CAST(least(p.sync_nanos, i.idle_nanos) AS DOUBLE) / p.divisor AS gain_nanos,
    CAST('measured' AS VARCHAR) AS confidence,
    rank(p.process_id) AS rank,
    p.process_id AS process_id,
    name(p.name_id) AS call,
    CAST(p.sync_count AS DOUBLE) / p.divisor AS syncs_per_step,
    CAST(p.longest_nanos AS DOUBLE) AS longest_nanos,
    100.0 * p.total_nanos / p.window_nanos AS total_sync_percent
FROM (
    SELECT
        process_id,
        context_id,
        max(window_nanos) AS window_nanos,
        max(divisor) AS divisor,
        count(*) AS sync_count,
        union_nanos(start_nanos, end_nanos) AS sync_nanos,
        sum(union_nanos(start_nanos, end_nanos)) OVER (PARTITION BY process_id) AS total_nanos,
        max(end_nanos - start_nanos) AS longest_nanos,
        first_value(name_id ORDER BY end_nanos - start_nanos DESC, name_id) AS name_id
    FROM waits
    WHERE NOT is_end
    GROUP BY process_id, context_id
) AS p
LEFT JOIN idle AS i ON i.process_id = p.process_id
WHERE p.window_nanos > 0 AND 100.0 * p.sync_nanos >= {min_percent} * p.window_nanos AND p.sync_nanos > 0
ORDER BY impact_nanos DESC, subject, p.process_id
LIMIT 5
