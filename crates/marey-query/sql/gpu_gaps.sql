WITH gaps AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        g.stream AS stream,
        g.start_nanos AS start_nanos,
        g.name_id AS name_id,
        g.kind AS kind,
        g.context_id AS context_id,
        g.correlation_id AS correlation_id,
        g.before_nanos AS gap_start_nanos,
        CAST((g.before_packed % 4294967296 + 4294967296) % 4294967296 AS BIGINT) AS previous_id,
        l.name_id AS launch_id,
        l.start_nanos AS launch_nanos,
        l.thread_id AS thread_id
    FROM (
        SELECT
            *,
            max(start_nanos + duration_nanos) OVER (
                PARTITION BY process_id, device, stream ORDER BY start_nanos, correlation_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_nanos,
            max(CAST(start_nanos + duration_nanos AS DECIMAL(38, 0)) * 4294967296 + name_id) OVER (
                PARTITION BY process_id, device, stream ORDER BY start_nanos, correlation_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_packed
        FROM raw.gpu_activities
        WHERE kind NOT IN ('sync', 'annotation')
    ) AS g
    LEFT JOIN runtime_calls AS l
        ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    WHERE g.start_nanos > g.before_nanos
),
moments AS (
    SELECT thread_id, gap_start_nanos AS time_nanos
    FROM gaps
    WHERE launch_nanos > gap_start_nanos
    GROUP BY thread_id, gap_start_nanos
),
turns AS (
    SELECT
        s.thread_id AS thread_id,
        s.start_nanos AS time_nanos,
        CAST(c.depth AS BIGINT) AS turn,
        s.context_id AS context_id
    FROM raw.spans AS s
    JOIN raw.contexts AS c ON c.id = s.context_id
    WHERE s.duration_nanos > 0 AND s.thread_id IN (SELECT DISTINCT thread_id FROM raw.spans WHERE correlation_id > 0)
    UNION ALL
    SELECT
        s.thread_id AS thread_id,
        s.start_nanos + s.duration_nanos AS time_nanos,
        -CAST(c.depth AS BIGINT) AS turn,
        c.parent_id AS context_id
    FROM raw.spans AS s
    JOIN raw.contexts AS c ON c.id = s.context_id
    WHERE s.duration_nanos > 0 AND s.thread_id IN (SELECT DISTINCT thread_id FROM raw.spans WHERE correlation_id > 0)
    UNION ALL
    SELECT
        thread_id,
        time_nanos,
        4294967296 AS turn,
        NULL AS context_id
    FROM moments
),
hosts AS (
    SELECT thread_id, time_nanos, newest AS context_id
    FROM (
        SELECT
            thread_id,
            time_nanos,
            context_id,
            lag(context_id) IGNORE NULLS OVER (PARTITION BY thread_id ORDER BY time_nanos, turn) AS newest
        FROM turns
    )
    WHERE context_id IS NULL
)
SELECT
    g.gap_start_nanos AS start_nanos,
    g.start_nanos AS end_nanos,
    g.start_nanos - g.gap_start_nanos AS gap_nanos,
    CAST(
        CASE
            WHEN g.launch_nanos > g.gap_start_nanos THEN 'host wait'
            WHEN g.start_nanos - g.gap_start_nanos < 30000 THEN 'kernel wait'
            ELSE 'other'
        END AS VARCHAR
    ) AS cause,
    CASE
        WHEN g.launch_nanos IS NOT NULL THEN greatest(least(g.launch_nanos, g.start_nanos) - g.gap_start_nanos, 0)
    END AS host_nanos,
    g.device AS device,
    g.stream AS stream,
    name(g.previous_id) AS previous_name,
    name(g.name_id) AS next_name,
    g.kind AS next_kind,
    name(g.launch_id) AS launch_name,
    g.launch_nanos AS launch_start_nanos,
    thread_name(g.thread_id) AS thread,
    path(g.context_id) AS path,
    name(c.name_id) AS host_span,
    path(c.id) AS host_path,
    g.correlation_id AS correlation_id,
    pid(g.process_id) AS pid,
    rank(g.process_id) AS rank,
    g.process_id AS process_id,
    g.thread_id AS thread_id,
    g.context_id AS context_id,
    c.id AS host_context_id
FROM gaps AS g
LEFT JOIN hosts AS h
    ON h.thread_id = g.thread_id AND h.time_nanos = g.gap_start_nanos AND g.launch_nanos > g.gap_start_nanos
LEFT JOIN raw.contexts AS c ON c.id = h.context_id AND c.parent_id IS NOT NULL
