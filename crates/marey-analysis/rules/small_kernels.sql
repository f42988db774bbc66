WITH kernels AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        g.name_id AS name_id,
        g.context_id AS context_id,
        w.window_nanos AS window_nanos,
        w.divisor AS divisor,
        g.start_nanos AS start_nanos,
        g.start_nanos + g.duration_nanos AS end_nanos,
        g.duration_nanos < 1000 * {short_micros} AS is_short,
        -- The cost of starting the kernel: the device was idle although the kernel had been launched.
        CASE
            WHEN g.start_nanos > g.before_nanos
                AND g.start_nanos - g.before_nanos < 30000
                AND coalesce(l.start_nanos <= g.before_nanos, true)
                THEN g.start_nanos - g.before_nanos
        END AS gap_nanos
    FROM (
        SELECT
            *,
            max(start_nanos + duration_nanos) OVER (
                PARTITION BY process_id, device ORDER BY start_nanos, correlation_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS before_nanos
        FROM raw.gpu_activities
        WHERE kind NOT IN ('sync', 'annotation')
    ) AS g
    JOIN step_summary AS w ON w.process_id = g.process_id
    LEFT JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    WHERE g.kind = 'kernel' AND g.start_nanos >= w.first_nanos AND g.start_nanos < w.last_nanos
)
SELECT
    name(k.name_id) AS subject,
    CAST(
        CASE
            WHEN 100.0 * (k.short_nanos + k.gap_nanos) / k.window_nanos > {high_percent} THEN 'high'
            WHEN 100.0 * (k.short_nanos + k.gap_nanos) / k.window_nanos > {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    CAST(k.short_nanos + k.gap_nanos AS DOUBLE) / k.divisor AS impact_nanos,
    100.0 * (k.short_nanos + k.gap_nanos) / k.window_nanos AS impact_percent,
    CAST(k.gap_nanos AS DOUBLE) / k.divisor AS gain_nanos,
    CAST('measured' AS VARCHAR) AS confidence,
    rank(k.process_id) AS rank,
    k.process_id AS process_id,
    k.device AS device,
    CAST(k.short_count AS DOUBLE) / k.divisor AS kernels_per_step,
    100.0 * k.short_count / k.kernel_count AS count_percent,
    CAST(k.short_nanos AS DOUBLE) / k.short_count AS mean_nanos,
    CAST(k.gap_nanos AS DOUBLE) / k.divisor AS gap_nanos,
    CAST(k.top_count AS DOUBLE) / k.divisor AS top_per_step,
    path(k.context_id) AS path
FROM (
    SELECT
        process_id,
        device,
        max(window_nanos) AS window_nanos,
        max(divisor) AS divisor,
        count(*) AS kernel_count,
        count(*) FILTER (WHERE is_short) AS short_count,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE is_short), 0) AS short_nanos,
        coalesce(sum(gap_nanos) FILTER (WHERE is_short), 0) AS gap_nanos,
        first_value(name_id ORDER BY name_count DESC, name_id) FILTER (WHERE is_short) AS name_id,
        first_value(context_id ORDER BY name_count DESC, name_id, context_id) FILTER (WHERE is_short) AS context_id,
        max(name_count) AS top_count
    FROM (
        SELECT
            *,
            count(*) FILTER (WHERE is_short) OVER (PARTITION BY process_id, device, name_id) AS name_count
        FROM kernels
    )
    GROUP BY process_id, device
) AS k
WHERE k.window_nanos > 0
    AND k.short_count > 0
    AND 100.0 * k.short_count >= {min_count_percent} * k.kernel_count
    AND k.short_count >= {min_per_step} * k.divisor
    AND 100.0 * (k.short_nanos + k.gap_nanos) >= {min_percent} * k.window_nanos
ORDER BY impact_nanos DESC, k.process_id, k.device
LIMIT 5
