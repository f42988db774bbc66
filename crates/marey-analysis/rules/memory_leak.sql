-- The bytes allocated at the end of each step, without the warm-up steps, in which memory grows anyway.
-- Host memory has no device number; 4294967295 represents it here.
WITH tails AS (
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
            process_id,
            device_type,
            coalesce(device, 4294967295) AS device,
            number,
            end_nanos,
            allocated_bytes,
            row_number() OVER (
                PARTITION BY process_id, device_type, device
                ORDER BY end_nanos, number
            ) AS position
        FROM step_memory
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
    s.device_type AS device_type,
    nullif(s.device, 4294967295) AS device,
    pid(s.process_id) AS pid
FROM slopes AS s
LEFT JOIN sizes AS t ON t.process_id = s.process_id AND t.device = s.device AND s.device_type <> 'cpu'
WHERE s.slope_bytes > {min_slope_bytes}
ORDER BY impact_nanos DESC, slope_bytes DESC, process_id, subject
LIMIT 5
