-- The bytes allocated at the end of each step, without the warm-up steps, in which memory grows anyway.
-- Host memory has no device number; 4294967295 represents it here.
WITH epochs AS (
    SELECT
        process_id,
        time_nanos,
        CAST(value AS BIGINT) AS number
    FROM counters
    WHERE name = 'sampled_epoch'
),
-- Processes of which some epochs were not recorded: steps on both sides of a gap are no neighbours, so that the
-- epochs are counted, and what is allocated at their ends.
sampled AS (
    SELECT process_id
    FROM epochs
    GROUP BY process_id
    HAVING max(number) + 1 > count(*)
),
ends AS (
    SELECT
        process_id,
        device_type,
        coalesce(device, 4294967295) AS device,
        number,
        end_nanos,
        allocated_bytes
    FROM step_memory
    WHERE process_id NOT IN (SELECT process_id FROM sampled)
    UNION ALL
    SELECT
        process_id,
        device_type,
        coalesce(device, 4294967295) AS device,
        epoch AS number,
        max(time_nanos) AS end_nanos,
        last_value(allocated_bytes ORDER BY time_nanos) AS allocated_bytes
    FROM (
        SELECT
            *,
            min(number) OVER (
                PARTITION BY process_id
                ORDER BY time_nanos, is_end
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            ) AS epoch
        FROM (
            SELECT
                process_id,
                time_nanos,
                1 AS is_end,
                number,
                NULL AS device_type,
                NULL AS device,
                NULL AS allocated_bytes
            FROM epochs
            UNION ALL
            SELECT
                process_id,
                time_nanos,
                0 AS is_end,
                NULL AS number,
                device_type,
                device,
                allocated_bytes
            FROM raw.memory_events
            WHERE allocated_bytes IS NOT NULL
        ) AS both_kinds
        WHERE process_id IN (SELECT process_id FROM sampled)
    ) AS readings
    WHERE is_end = 0 AND epoch IS NOT NULL
    GROUP BY process_id, device_type, coalesce(device, 4294967295), epoch
),
tails AS (
    SELECT
        process_id,
        device_type,
        device,
        number,
        allocated_bytes,
        CAST(row_number() OVER line AS BIGINT) AS position,
        count(*) OVER memory AS count,
        first_value(allocated_bytes) OVER line AS first_bytes,
        regr_r2(CAST(allocated_bytes AS DOUBLE), CAST(number AS DOUBLE)) OVER memory AS r2
    FROM (
        SELECT
            *,
            row_number() OVER (
                PARTITION BY process_id, device_type, device
                ORDER BY end_nanos, number
            ) AS position
        FROM ends
    ) AS m
    WHERE position > {warmup_steps}
    WINDOW
        memory AS (PARTITION BY process_id, device_type, device),
        line AS (PARTITION BY process_id, device_type, device ORDER BY end_nanos, number)
),
-- Up to 400 points for each memory that may be leaking, to bound the number of pairs: with more steps, each
-- point is the mean of several.
points AS (
    SELECT
        process_id,
        device_type,
        device,
        count,
        r2,
        first_bytes,
        position * least(count, 400) / (count + 1) AS bin,
        avg(CAST(number AS DOUBLE)) AS x,
        avg(CAST(allocated_bytes AS DOUBLE)) AS y,
        max(CASE WHEN position = count THEN allocated_bytes END) AS last_bytes
    FROM tails
    WHERE count >= {min_steps} AND r2 >= {min_r2}
    GROUP BY process_id, device_type, device, count, r2, first_bytes, position * least(count, 400) / (count + 1)
),
lists AS (
    SELECT
        process_id,
        device_type,
        device,
        count,
        r2,
        first_bytes,
        max(last_bytes) AS last_bytes,
        array_agg(x ORDER BY bin) AS xs,
        array_agg(y ORDER BY bin) AS ys
    FROM points
    GROUP BY process_id, device_type, device, count, r2, first_bytes
    HAVING max(last_bytes) - first_bytes >= {min_growth_bytes}
),
lefts AS (
    SELECT
        *,
        unnest(xs) AS x1,
        unnest(ys) AS y1
    FROM lists
),
pairs AS (
    SELECT
        process_id,
        device_type,
        device,
        count,
        r2,
        first_bytes,
        last_bytes,
        x1,
        y1,
        unnest(xs) AS x2,
        unnest(ys) AS y2
    FROM lefts
),
-- Theil-Sen: the median of the slopes between all pairs.
slopes AS (
    SELECT
        process_id,
        device_type,
        device,
        count,
        r2,
        first_bytes,
        last_bytes,
        median((y2 - y1) / (x2 - x1)) AS slope_bytes
    FROM pairs
    WHERE x2 > x1
    GROUP BY process_id, device_type, device, count, r2, first_bytes, last_bytes
),
sizes AS (
    SELECT
        process_id,
        device,
        max(TRY_CAST(arg(properties, 'totalGlobalMem') AS DOUBLE)) AS total_bytes
    FROM raw.devices
    GROUP BY process_id, device
)
SELECT
    CAST(
        CASE
            WHEN s.device = 4294967295 THEN s.device_type
            ELSE concat(s.device_type, ':', CAST(s.device AS VARCHAR))
        END AS VARCHAR
    ) AS subject,
    CAST('high' AS VARCHAR) AS severity,
    CAST(0 AS DOUBLE) AS impact_nanos,
    CAST(0 AS DOUBLE) AS impact_percent,
    CAST(NULL AS DOUBLE) AS gain_nanos,
    CAST('likely' AS VARCHAR) AS confidence,
    rank(s.process_id) AS rank,
    s.process_id AS process_id,
    s.slope_bytes AS slope_bytes,
    s.r2 AS r2,
    s.last_bytes - s.first_bytes AS growth_bytes,
    s.last_bytes AS last_bytes,
    s.count AS step_count,
    t.total_bytes AS total_bytes,
    -- Host memory has no device to compare with.
    CASE WHEN t.total_bytes > s.last_bytes THEN floor((t.total_bytes - s.last_bytes) / s.slope_bytes) END AS steps_left,
    CAST(CASE WHEN e.process_id IS NULL THEN 'step' ELSE 'epoch' END AS VARCHAR) AS unit,
    s.device_type AS device_type,
    nullif(s.device, 4294967295) AS device,
    pid(s.process_id) AS pid
FROM slopes AS s
LEFT JOIN sizes AS t ON t.process_id = s.process_id AND t.device = s.device AND s.device_type <> 'cpu'
LEFT JOIN sampled AS e ON e.process_id = s.process_id
WHERE s.slope_bytes > {min_slope_bytes}
ORDER BY impact_nanos DESC, slope_bytes DESC, process_id, subject
LIMIT 5
