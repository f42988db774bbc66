WITH RECURSIVE
activities AS (
    SELECT
        process_id,
        context_id,
        kind,
        start_nanos,
        duration_nanos
    FROM raw.gpu_activities
    WHERE kind IN ('kernel', 'memcpy', 'memset')
),
ancestors AS (
    SELECT
        id AS context_id,
        id AS launched_in,
        parent_id
    FROM raw.contexts
    WHERE parent_id IS NOT NULL AND id IN (SELECT context_id FROM activities)
    UNION ALL
    SELECT
        c.id AS context_id,
        a.launched_in AS launched_in,
        c.parent_id AS parent_id
    FROM ancestors AS a
    JOIN raw.contexts AS c ON c.id = a.parent_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.parent_id IS NOT NULL AND c.id < a.context_id
)
SELECT
    name(c.name_id) AS name,
    c.kind AS kind,
    path(c.id) AS path,
    c.depth AS depth,
    s.count AS count,
    s.self_count AS self_count,
    s.kernel_count AS kernel_count,
    s.total_nanos AS total_nanos,
    s.self_nanos AS self_nanos,
    s.busy_nanos AS busy_nanos,
    s.self_busy_nanos AS self_busy_nanos,
    pid(s.process_id) AS pid,
    rank(s.process_id) AS rank,
    s.process_id AS process_id,
    s.context_id AS context_id,
    c.parent_id AS parent_id
FROM (
    SELECT
        g.process_id AS process_id,
        a.context_id AS context_id,
        count(*) AS count,
        sum(CASE WHEN a.context_id = a.launched_in THEN 1 ELSE 0 END) AS self_count,
        sum(CASE WHEN g.kind = 'kernel' THEN 1 ELSE 0 END) AS kernel_count,
        sum(g.duration_nanos) AS total_nanos,
        sum(CASE WHEN a.context_id = a.launched_in THEN g.duration_nanos ELSE 0 END) AS self_nanos,
        union_nanos(g.start_nanos, g.start_nanos + g.duration_nanos) AS busy_nanos,
        coalesce(
            union_nanos(g.start_nanos, g.start_nanos + g.duration_nanos)
                FILTER (WHERE a.context_id = a.launched_in),
            0
        ) AS self_busy_nanos
    FROM activities AS g
    JOIN ancestors AS a ON a.launched_in = g.context_id
    GROUP BY g.process_id, a.context_id
) AS s
JOIN raw.contexts AS c ON c.id = s.context_id
