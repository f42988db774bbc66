-- A graph launch counts as one launch, however many kernels it has.
WITH launched AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        w.window_nanos AS window_nanos,
        w.divisor AS divisor,
        g.work_nanos AS work_nanos,
        greatest(g.start_nanos - l.end_nanos, 0) AS delay_nanos,
        l.start_nanos - lag(l.start_nanos) OVER (
            PARTITION BY g.process_id, g.device, l.thread_id ORDER BY l.start_nanos
        ) AS cycle_nanos
    FROM (
        SELECT
            process_id,
            device,
            correlation_id,
            min(start_nanos) AS start_nanos,
            sum(duration_nanos) AS work_nanos
        FROM raw.gpu_activities
        WHERE kind = 'kernel'
        GROUP BY process_id, device, correlation_id
    ) AS g
    JOIN runtime_calls AS l ON l.process_id = g.process_id AND l.correlation_id = g.correlation_id
    JOIN step_summary AS w ON w.process_id = g.process_id
    WHERE l.start_nanos >= w.first_nanos AND l.start_nanos < w.last_nanos
)
SELECT
    CAST(concat('device ', i.device) AS VARCHAR) AS subject,
    CAST(
        CASE
            WHEN 100.0 * i.operator_nanos / l.window_nanos > {high_percent} THEN 'high'
            WHEN 100.0 * i.operator_nanos / l.window_nanos > {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    CAST(i.operator_nanos AS DOUBLE) / l.divisor AS impact_nanos,
    100.0 * i.operator_nanos / l.window_nanos AS impact_percent,
    CAST(i.operator_nanos AS DOUBLE) / l.divisor AS gain_nanos,
    CAST('likely' AS VARCHAR) AS confidence,
    rank(i.process_id) AS rank,
    i.process_id AS process_id,
    i.device AS device,
    l.cycle_nanos AS cycle_nanos,
    l.work_nanos AS work_nanos,
    l.empty_percent AS empty_percent,
    l.launch_count AS launch_count,
    100.0 * i.operator_nanos / i.idle_nanos AS operator_percent,
    100.0 * i.idle_nanos / l.window_nanos AS device_idle_percent
FROM (
    SELECT
        process_id,
        device,
        sum(idle_nanos) AS idle_nanos,
        coalesce(sum(idle_nanos) FILTER (WHERE activity = 'operators'), 0) AS operator_nanos
    FROM device_idle
    GROUP BY process_id, device
) AS i
JOIN (
    SELECT
        process_id,
        device,
        max(window_nanos) AS window_nanos,
        max(divisor) AS divisor,
        count(*) AS launch_count,
        avg(CAST(work_nanos AS DOUBLE)) AS work_nanos,
        CAST(percentile_cont(cycle_nanos, 0.5) AS DOUBLE) AS cycle_nanos,
        100.0 * count(*) FILTER (WHERE delay_nanos < 1000 * {queue_micros}) / count(*) AS empty_percent
    FROM launched
    GROUP BY process_id, device
) AS l ON l.process_id = i.process_id AND l.device = i.device
WHERE l.window_nanos > 0
    AND 100.0 * i.operator_nanos >= {min_percent} * l.window_nanos
    AND 100.0 * i.operator_nanos > {min_operator_percent} * i.idle_nanos
    AND l.empty_percent > {min_empty_percent}
    AND l.work_nanos < l.cycle_nanos
ORDER BY impact_nanos DESC, i.process_id, i.device
LIMIT 5
