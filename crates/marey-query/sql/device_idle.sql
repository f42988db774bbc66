-- The gaps of whole devices, from the latest end of all earlier activities on any stream to the start of the
-- next activity, cut to the window of the steps.
WITH gaps AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        greatest(g.before_nanos, w.first_nanos) AS start_nanos,
        least(g.start_nanos, w.last_nanos) AS end_nanos,
        CASE
            WHEN l.start_nanos > g.before_nanos THEN 'host wait'
            WHEN g.start_nanos - g.before_nanos < 30000 THEN 'kernel wait'
            ELSE 'other'
        END AS cause,
        CASE WHEN l.start_nanos > g.before_nanos THEN l.thread_id END AS thread_id
    FROM (
        SELECT
            process_id,
            device,
            correlation_id,
            start_nanos,
            max(start_nanos + duration_nanos) OVER (
                PARTITION BY process_id, device ORDER BY start_nanos, correlation_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_nanos
        FROM raw.gpu_activities
        WHERE kind NOT IN ('sync', 'annotation')
    ) AS g
    JOIN step_summary AS w ON w.process_id = g.process_id
    LEFT JOIN runtime_calls AS l
        ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    WHERE g.start_nanos > g.before_nanos AND g.before_nanos < w.last_nanos AND g.start_nanos > w.first_nanos
),
-- The threads that launched something, per device.
launchers AS (
    SELECT l.thread_id AS thread_id, g.device AS device
    FROM raw.gpu_activities AS g
    JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    WHERE g.kind NOT IN ('sync', 'annotation')
    GROUP BY l.thread_id, g.device
)
SELECT
    s.device AS device,
    CAST(s.cause AS VARCHAR) AS cause,
    CAST(
        CASE
            WHEN s.cause <> 'host wait' THEN NULL
            WHEN regexp_like(path(s.context_id), 'DataLoader|dataloader[.]py') THEN 'data loading'
            WHEN c.kind = 'runtime' AND regexp_like(name(c.name_id), 'Synchronize') THEN 'synchronisation'
            WHEN c.kind = 'runtime' AND regexp_like(name(c.name_id), '^(cuda|hip|cu)(Host|Mem)?(Malloc|Alloc|Free|Register|Unregister|Create|Map|Unmap|Release|SetAccess)')
                THEN 'memory allocation'
            WHEN c.kind = 'runtime' AND regexp_like(name(c.name_id), 'Memcpy') THEN 'copying'
            WHEN c.kind IN ('operator', 'runtime') THEN 'operators'
            ELSE 'outside operators'
        END AS VARCHAR
    ) AS activity,
    s.idle_nanos AS idle_nanos,
    s.gap_count AS gap_count,
    CASE WHEN c.parent_id IS NOT NULL THEN name(c.name_id) END AS host_span,
    CASE WHEN c.parent_id IS NOT NULL THEN path(c.id) END AS host_path,
    CASE WHEN s.thread_id IS NOT NULL THEN thread_name(s.thread_id) END AS thread,
    pid(s.process_id) AS pid,
    rank(s.process_id) AS rank,
    s.process_id AS process_id,
    s.thread_id AS thread_id,
    CASE WHEN c.parent_id IS NOT NULL THEN c.id END AS host_context_id
FROM (
    SELECT
        process_id,
        device,
        thread_id,
        cause,
        CASE WHEN thread_id IS NOT NULL THEN context_id END AS context_id,
        sum(idle_nanos) AS idle_nanos,
        count(*) FILTER (WHERE is_gap) AS gap_count
    FROM (
        -- Between one moment and the next, the thread is in the same innermost span.
        SELECT
            process_id,
            device,
            thread_id,
            cause,
            is_gap,
            CASE WHEN thread_id IS NULL THEN gap_nanos WHEN is_open THEN next_nanos - time_nanos END AS idle_nanos,
            coalesce(context_id, earlier_context_id) AS context_id
        FROM (
            SELECT
                *,
                lag(context_id) IGNORE NULLS OVER turns AS earlier_context_id,
                lead(time_nanos) OVER turns AS next_nanos,
                coalesce(is_gap, lag(is_gap) IGNORE NULLS OVER turns) AS is_open
            FROM (
                -- The moments at which a thread enters and leaves spans, and at which gaps that it causes begin
                -- and end. The gaps of a device do not overlap; at one moment, the end of one comes before the
                -- begin of the next. Those without a thread have their length at their beginning.
                SELECT
                    process_id,
                    device,
                    thread_id,
                    CASE WHEN side > 0 THEN start_nanos ELSE end_nanos END AS time_nanos,
                    4294967296 + side AS turn,
                    NULL AS context_id,
                    side > 0 AS is_gap,
                    CASE WHEN thread_id IS NULL AND side > 0 THEN end_nanos - start_nanos END AS gap_nanos,
                    cause
                FROM (SELECT *, unnest([1, -1]) AS side FROM gaps)
                UNION ALL
                SELECT
                    process_of(thread_id) AS process_id,
                    device,
                    thread_id,
                    CASE WHEN side > 0 THEN start_nanos ELSE start_nanos + duration_nanos END AS time_nanos,
                    side * CAST(depth AS BIGINT) AS turn,
                    CASE WHEN side > 0 THEN context_id ELSE parent_id END AS context_id,
                    NULL AS is_gap,
                    NULL AS gap_nanos,
                    'host wait' AS cause
                FROM (
                    SELECT
                        s.start_nanos AS start_nanos,
                        s.duration_nanos AS duration_nanos,
                        s.thread_id AS thread_id,
                        s.context_id AS context_id,
                        t.device AS device,
                        c.parent_id AS parent_id,
                        c.depth AS depth,
                        unnest([1, -1]) AS side
                    FROM raw.spans AS s
                    JOIN launchers AS t ON t.thread_id = s.thread_id
                    JOIN raw.contexts AS c ON c.id = s.context_id
                    WHERE s.duration_nanos > 0
                )
            )
            WINDOW turns AS (PARTITION BY process_id, device, thread_id ORDER BY time_nanos, turn)
        )
    ) AS segments
    WHERE idle_nanos > 0
    GROUP BY 1, 2, 3, 4, 5
) AS s
LEFT JOIN raw.contexts AS c ON c.id = s.context_id
