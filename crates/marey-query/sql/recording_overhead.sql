WITH
noted AS (
    SELECT
        process_id,
        max(CASE WHEN key = 'overhead' THEN text END) AS statement,
        max(CASE WHEN key = 'overhead_percent' THEN text END) AS percent,
        max(CASE WHEN key = 'overhead_low_percent' THEN text END) AS low_percent,
        max(CASE WHEN key = 'overhead_high_percent' THEN text END) AS high_percent,
        max(CASE WHEN key = 'overhead_blocks' THEN text END) AS block_count,
        max(CASE WHEN key = 'overhead_block_steps' THEN text END) AS block_steps,
        max(CASE WHEN key = 'overhead_steps' THEN text END) AS step_count,
        max(CASE WHEN key = 'overhead_detail' THEN text END) AS detail,
        max(CASE WHEN key = 'overhead_target_percent' THEN text END) AS target_percent,
        max(CASE WHEN key = 'overhead_backoff' THEN text END) AS backoff
    FROM (
        -- A value is a text in JSON; those of the recorder need no escapes.
        SELECT
            process_id,
            key,
            btrim(value, '"') AS text
        FROM raw.metadata
        WHERE key LIKE 'overhead%' AND thread_id IS NULL
    )
    GROUP BY process_id
)
SELECT
    n.statement AS statement,
    TRY_CAST(n.percent AS DOUBLE) AS percent,
    TRY_CAST(n.low_percent AS DOUBLE) AS low_percent,
    TRY_CAST(n.high_percent AS DOUBLE) AS high_percent,
    TRY_CAST(n.block_count AS BIGINT) AS block_count,
    TRY_CAST(n.block_steps AS BIGINT) AS block_steps,
    TRY_CAST(n.step_count AS BIGINT) AS step_count,
    coalesce(l.count, 0) AS unrecorded_steps,
    n.detail AS detail,
    TRY_CAST(n.target_percent AS DOUBLE) AS target_percent,
    n.backoff AS backoff,
    pid(n.process_id) AS pid,
    rank(n.process_id) AS rank,
    n.process_id AS process_id
FROM noted AS n
LEFT JOIN raw.losses AS l ON l.process_id = n.process_id AND l.cause = 'baseline_steps'
WHERE n.statement IS NOT NULL
