-- The change from the previous reading to each reading belongs to the context node of the reading, in which it was
-- taken. A peak of the allocator that has risen since the previous reading was reached in between.
WITH RECURSIVE
changes AS (
    SELECT
        process_id,
        device_type,
        device,
        context_id,
        row_number() OVER memory AS position,
        lag(allocated_bytes) OVER memory AS before_bytes,
        allocated_bytes - lag(allocated_bytes) OVER memory AS growth_bytes,
        greatest(
            allocated_bytes,
            CASE WHEN peak_bytes > lag(peak_bytes) IGNORE NULLS OVER memory THEN peak_bytes END
        ) AS peak_bytes,
        reserved_bytes - lag(reserved_bytes) OVER memory AS reserved_growth_bytes,
        reserved_bytes
    FROM raw.memory_events
    WHERE allocated_bytes IS NOT NULL
    WINDOW memory AS (PARTITION BY process_id, device_type, device ORDER BY time_nanos)
),
contexts AS (
    SELECT
        process_id,
        device_type,
        device,
        context_id,
        coalesce(sum(growth_bytes), 0) AS growth_bytes,
        max(peak_bytes) AS peak_bytes,
        sum(reserved_growth_bytes) AS reserved_growth_bytes,
        max(reserved_bytes) AS max_reserved_bytes
    FROM changes
    WHERE context_id IS NOT NULL
    GROUP BY process_id, device_type, device, context_id
),
-- The nodes from each context node up to the root, with the number of modules passed on the way.
ancestors AS (
    SELECT
        id AS context_id,
        id AS inner_id,
        parent_id,
        CAST(CASE WHEN kind = 'module' THEN 1 ELSE 0 END AS BIGINT) AS modules
    FROM raw.contexts
    WHERE id IN (SELECT context_id FROM contexts)
    UNION ALL
    SELECT
        c.id AS context_id,
        a.inner_id AS inner_id,
        c.parent_id AS parent_id,
        a.modules + CASE WHEN c.kind = 'module' THEN 1 ELSE 0 END AS modules
    FROM ancestors AS a
    JOIN raw.contexts AS c ON c.id = a.parent_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.id < a.context_id
),
modules AS (
    SELECT
        m.process_id AS process_id,
        m.device_type AS device_type,
        m.device AS device,
        a.context_id AS context_id,
        sum(m.growth_bytes) AS growth_bytes,
        sum(CASE WHEN a.modules = 1 THEN m.growth_bytes ELSE 0 END) AS self_growth_bytes,
        max(m.peak_bytes) AS peak_bytes,
        sum(m.reserved_growth_bytes) AS reserved_growth_bytes,
        max(m.max_reserved_bytes) AS max_reserved_bytes
    FROM contexts AS m
    JOIN ancestors AS a ON a.inner_id = m.context_id
    WHERE kind(a.context_id) = 'module'
    GROUP BY m.process_id, m.device_type, m.device, a.context_id
),
-- Readings in a module without one outside of it in between are those of one call.
in_calls AS (
    SELECT
        m.process_id AS process_id,
        m.device_type AS device_type,
        m.device AS device,
        a.context_id AS context_id,
        m.position AS position,
        m.position - row_number() OVER (
            PARTITION BY m.process_id, m.device_type, m.device, a.context_id
            ORDER BY m.position
        ) AS call,
        m.before_bytes AS before_bytes,
        m.peak_bytes AS peak_bytes
    FROM changes AS m
    JOIN ancestors AS a ON a.inner_id = m.context_id
    WHERE kind(a.context_id) = 'module'
),
rises AS (
    SELECT
        process_id,
        device_type,
        device,
        context_id,
        max(peak_bytes - entry_bytes) AS peak_change_bytes
    FROM (
        SELECT
            process_id,
            device_type,
            device,
            context_id,
            max(peak_bytes) AS peak_bytes,
            first_value(before_bytes ORDER BY position) AS entry_bytes
        FROM in_calls
        GROUP BY process_id, device_type, device, context_id, call
    ) AS c
    GROUP BY process_id, device_type, device, context_id
),
calls AS (
    SELECT
        process_of(thread_id) AS process_id,
        context_id,
        sum(count) AS count
    FROM raw.rollups
    WHERE bucket_nanos = 0 AND kind(context_id) = 'module'
    GROUP BY process_of(thread_id), context_id
)
SELECT
    name(c.name_id) AS name,
    path(m.context_id) AS path,
    c.depth AS depth,
    m.device_type AS device_type,
    m.device AS device,
    coalesce(n.count, 0) AS calls,
    m.growth_bytes AS growth_bytes,
    m.self_growth_bytes AS self_growth_bytes,
    m.peak_bytes AS peak_bytes,
    r.peak_change_bytes AS peak_change_bytes,
    m.reserved_growth_bytes AS reserved_growth_bytes,
    m.max_reserved_bytes AS max_reserved_bytes,
    pid(m.process_id) AS pid,
    rank(m.process_id) AS rank,
    m.process_id AS process_id,
    m.context_id AS context_id,
    c.parent_id AS parent_id
FROM modules AS m
JOIN raw.contexts AS c ON c.id = m.context_id
JOIN rises AS r ON
    r.process_id = m.process_id
    AND r.device_type = m.device_type
    AND (r.device IS NOT DISTINCT FROM m.device)
    AND r.context_id = m.context_id
LEFT JOIN calls AS n ON n.process_id = m.process_id AND n.context_id = m.context_id
