WITH RECURSIVE
backward AS (
    SELECT
        process_id,
        forward_context AS context_id,
        count(*) AS count,
        sum(duration_nanos) AS nanos
    FROM autograd_calls
    GROUP BY process_id, forward_context
),
ancestors AS (
    SELECT id AS context_id, id AS operator_id, parent_id
    FROM raw.contexts
    WHERE id IN (SELECT context_id FROM backward)
    UNION ALL
    SELECT c.id AS context_id, a.operator_id AS operator_id, c.parent_id AS parent_id
    FROM ancestors AS a
    JOIN raw.contexts AS c ON c.id = a.parent_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.id < a.context_id
),
backward_of_modules AS (
    SELECT
        b.process_id AS process_id,
        a.context_id AS context_id,
        sum(b.count) AS count,
        sum(b.nanos) AS nanos
    FROM ancestors AS a
    JOIN backward AS b ON b.context_id = a.operator_id
    WHERE kind(a.context_id) = 'module'
    GROUP BY b.process_id, a.context_id
),
forward_of_modules AS (
    SELECT
        process_of(thread_id) AS process_id,
        context_id,
        sum(count) AS count,
        sum(total_nanos) AS nanos
    FROM raw.rollups
    WHERE bucket_nanos = 0 AND kind(context_id) = 'module'
    GROUP BY process_of(thread_id), context_id
)
SELECT
    name(c.name_id) AS name,
    path(f.context_id) AS path,
    c.depth AS depth,
    f.count AS calls,
    f.nanos AS forward_nanos,
    coalesce(b.count, 0) AS backward_calls,
    coalesce(b.nanos, 0) AS backward_nanos,
    f.nanos + coalesce(b.nanos, 0) AS total_nanos,
    pid(f.process_id) AS pid,
    rank(f.process_id) AS rank,
    f.process_id AS process_id,
    f.context_id AS context_id,
    c.parent_id AS parent_id
FROM forward_of_modules AS f
JOIN raw.contexts AS c ON c.id = f.context_id
LEFT JOIN backward_of_modules AS b
    ON b.context_id = f.context_id AND b.process_id = f.process_id
