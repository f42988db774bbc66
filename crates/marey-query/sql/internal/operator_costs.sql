-- The cost of each call of an operator that launched something itself. An operator around it has the same cost
-- and must not be counted again.
SELECT
    process_id,
    context_id,
    external_id,
    start_nanos,
    op_flops(operator, args) AS flops,
    op_bytes(operator, args) AS bytes,
    CASE
        WHEN types LIKE '["c10::Half"%' OR types LIKE '["c10::BFloat16"%' THEN 16
        WHEN types LIKE '["double"%' THEN 64
        WHEN types LIKE '["c10::Float8%' OR types LIKE '["signed char"%' THEN 8
        ELSE 32
    END AS bits,
    -- Whether operators have shapes in a sample of the steps only.
    is_sampled
FROM (
    SELECT
        *,
        arg(args, 'Input type') AS types
    FROM (
        SELECT
            process_of(s.thread_id) AS process_id,
            s.context_id AS context_id,
            s.external_id AS external_id,
            s.start_nanos AS start_nanos,
            name(s.name_id) AS operator,
            args(s.args_id, s.arg_numbers) AS args,
            m.process_id IS NOT NULL AS is_sampled
        FROM raw.spans AS s
        LEFT JOIN (
            SELECT DISTINCT process_id
            FROM raw.metadata
            WHERE key = 'operator_shapes' AND value = '"sampled"'
        ) AS m ON m.process_id = process_of(s.thread_id)
        WHERE s.context_id IN (
            SELECT DISTINCT context_id
            FROM raw.gpu_activities
            WHERE kind IN ('kernel', 'memcpy', 'memset')
        )
    )
)
