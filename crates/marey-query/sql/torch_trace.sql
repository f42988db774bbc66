WITH RECURSIVE
steps AS (
    SELECT
        process_id,
        start_nanos,
        min(number) AS number,
        max(start_nanos + duration_nanos) AS end_nanos
    FROM raw.steps
    GROUP BY process_id, start_nanos
),
-- The rows that are spans, and the calls of autograd nodes by the forward operator that made the node.
spans AS (
    SELECT
        process_of(thread_id) AS process_id,
        start_nanos,
        start_nanos + duration_nanos AS end_nanos,
        duration_nanos,
        CASE
            WHEN kind(context_id) = 'module' THEN 'forward'
            WHEN name(name_id) = 'backward' THEN 'backward'
            ELSE 'step'
        END AS stage,
        CASE
            WHEN kind(context_id) = 'module' THEN name(name_id)
            WHEN name(name_id) <> 'backward' THEN left(name(name_id), -5)
        END AS module,
        CAST(NULL AS INTEGER UNSIGNED) AS forward_context
    FROM raw.spans
    WHERE
        kind(context_id) = 'module'
        OR (kind(context_id) = 'scope' AND (name(name_id) = 'backward' OR name(name_id) LIKE '_%.step'))
    UNION ALL
    SELECT
        process_id,
        start_nanos,
        start_nanos + duration_nanos AS end_nanos,
        duration_nanos,
        'backward' AS stage,
        CAST(NULL AS VARCHAR) AS module,
        forward_context
    FROM autograd_calls
),
-- Each row with the start of the last step that had begun by then.
placed AS (
    SELECT
        process_id,
        start_nanos,
        end_nanos,
        duration_nanos,
        stage,
        module,
        forward_context,
        max(step_nanos) OVER (
            PARTITION BY process_id
            ORDER BY start_nanos, is_step DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS step_nanos
    FROM (
        SELECT
            *,
            CAST(NULL AS BIGINT) AS step_nanos,
            0 AS is_step
        FROM spans
        UNION ALL
        SELECT
            process_id,
            start_nanos,
            end_nanos,
            CAST(NULL AS BIGINT) AS duration_nanos,
            CAST(NULL AS VARCHAR) AS stage,
            CAST(NULL AS VARCHAR) AS module,
            CAST(NULL AS INTEGER UNSIGNED) AS forward_context,
            start_nanos AS step_nanos,
            1 AS is_step
        FROM steps
    ) AS line
),
in_steps AS (
    SELECT
        p.process_id AS process_id,
        p.start_nanos AS start_nanos,
        p.end_nanos AS end_nanos,
        p.duration_nanos AS duration_nanos,
        p.stage AS stage,
        p.module AS module,
        p.forward_context AS forward_context,
        s.number AS number,
        s.start_nanos AS step_nanos
    FROM placed AS p
    LEFT JOIN steps AS s
        ON s.process_id = p.process_id AND s.start_nanos = p.step_nanos AND s.end_nanos > p.start_nanos
    WHERE p.stage IS NOT NULL
),
-- The modules around each forward operator.
ancestors AS (
    SELECT id AS context_id, id AS operator_id, parent_id
    FROM raw.contexts
    WHERE id IN (SELECT forward_context FROM in_steps)
    UNION ALL
    SELECT c.id AS context_id, a.operator_id AS operator_id, c.parent_id AS parent_id
    FROM ancestors AS a
    JOIN raw.contexts AS c ON c.id = a.parent_id
    -- Parents have lower ids than their children; the check ends a cycle in a damaged run.
    WHERE c.id < a.context_id
),
stages AS (
    SELECT
        process_id,
        start_nanos,
        end_nanos,
        duration_nanos,
        stage,
        module,
        number,
        step_nanos,
        1 AS has_memory
    FROM in_steps
    WHERE forward_context IS NULL
    UNION ALL
    SELECT
        b.process_id AS process_id,
        min(b.start_nanos) AS start_nanos,
        max(b.end_nanos) AS end_nanos,
        sum(b.duration_nanos) AS duration_nanos,
        'backward' AS stage,
        name(c.name_id) AS module,
        b.number AS number,
        b.step_nanos AS step_nanos,
        0 AS has_memory
    FROM in_steps AS b
    JOIN ancestors AS a ON a.operator_id = b.forward_context
    JOIN raw.contexts AS c ON c.id = a.context_id
    WHERE c.kind = 'module'
    GROUP BY b.process_id, b.number, b.step_nanos, a.context_id, c.name_id
),
-- The change of each accelerator's totals from reading to reading; their sums over time are those of all accelerators.
changes AS (
    SELECT
        process_id,
        time_nanos,
        allocated_bytes - lag(allocated_bytes, 1, 0) OVER memory AS allocated_bytes,
        coalesce(peak_bytes, allocated_bytes)
            - lag(coalesce(peak_bytes, allocated_bytes), 1, 0) OVER memory AS peak_bytes,
        reserved_bytes - lag(reserved_bytes, 1, 0) OVER memory AS reserved_bytes
    FROM raw.memory_events
    WHERE allocated_bytes IS NOT NULL AND device IS NOT NULL AND device_type NOT IN ('cpu', 'host')
    WINDOW memory AS (PARTITION BY process_id, device_type, device ORDER BY time_nanos)
),
totals AS (
    SELECT
        process_id,
        start_nanos,
        duration_nanos,
        stage,
        module,
        number,
        step_nanos,
        has_memory,
        sum(allocated_bytes) OVER line AS allocated_bytes,
        sum(peak_bytes) OVER line AS peak_bytes,
        sum(reserved_bytes) OVER line AS reserved_bytes
    FROM (
        SELECT
            *,
            end_nanos AS time_nanos,
            CAST(NULL AS BIGINT) AS allocated_bytes,
            CAST(NULL AS BIGINT) AS peak_bytes,
            CAST(NULL AS BIGINT) AS reserved_bytes,
            1 AS is_stage
        FROM stages
        UNION ALL
        SELECT
            process_id,
            CAST(NULL AS BIGINT) AS start_nanos,
            CAST(NULL AS BIGINT) AS end_nanos,
            CAST(NULL AS BIGINT) AS duration_nanos,
            CAST(NULL AS VARCHAR) AS stage,
            CAST(NULL AS VARCHAR) AS module,
            CAST(NULL AS INTEGER UNSIGNED) AS number,
            CAST(NULL AS BIGINT) AS step_nanos,
            CAST(NULL AS BIGINT) AS has_memory,
            time_nanos,
            allocated_bytes,
            peak_bytes,
            reserved_bytes,
            0 AS is_stage
        FROM changes
    ) AS line
    WINDOW line AS (
        PARTITION BY process_id
        ORDER BY time_nanos, is_stage
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT
    number AS step,
    CAST(row_number() OVER (PARTITION BY process_id, number ORDER BY start_nanos, duration_nanos DESC) AS BIGINT) - 1 AS seq,
    module,
    stage,
    CASE WHEN has_memory = 1 THEN allocated_bytes / 1048576.0 END AS allocated,
    CASE WHEN has_memory = 1 THEN peak_bytes / 1048576.0 END AS max_allocated,
    CASE WHEN has_memory = 1 THEN reserved_bytes / 1048576.0 END AS cached,
    (start_nanos - step_nanos) / 1e9 AS time_offset,
    duration_nanos / 1e9 AS duration,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM totals
WHERE stage IS NOT NULL
