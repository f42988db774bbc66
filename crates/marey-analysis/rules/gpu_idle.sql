SELECT
    CAST(concat(i.cause, CASE WHEN i.activity IS NOT NULL THEN concat(': ', i.activity) END) AS VARCHAR) AS subject,
    CAST(
        CASE
            WHEN 100.0 * i.idle_nanos / w.window_nanos > {high_percent} THEN 'high'
            WHEN 100.0 * i.idle_nanos / w.window_nanos > {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    CAST(i.idle_nanos AS DOUBLE) / w.divisor AS impact_nanos,
    100.0 * i.idle_nanos / w.window_nanos AS impact_percent,
    CASE i.cause WHEN 'host wait' THEN CAST(i.idle_nanos AS DOUBLE) / w.divisor WHEN 'kernel wait' THEN 0.0 END AS gain_nanos,
    CAST(CASE WHEN i.cause = 'other' THEN 'possible' ELSE 'measured' END AS VARCHAR) AS confidence,
    rank(i.process_id) AS rank,
    i.process_id AS process_id,
    i.device AS device,
    CAST(coalesce(i.host_span, 'no span') AS VARCHAR) AS host_span,
    i.host_path AS host_path,
    CAST(i.host_span_nanos AS DOUBLE) / w.divisor AS host_span_nanos,
    i.gap_count AS gap_count,
    100.0 * i.device_idle_nanos / w.window_nanos AS device_idle_percent
FROM (
    SELECT
        process_id,
        device,
        cause,
        activity,
        sum(idle_nanos) AS idle_nanos,
        sum(gap_count) AS gap_count,
        first_value(host_span ORDER BY idle_nanos DESC, host_span) AS host_span,
        first_value(host_path ORDER BY idle_nanos DESC, host_span) AS host_path,
        max(idle_nanos) AS host_span_nanos,
        sum(sum(idle_nanos)) OVER (PARTITION BY process_id, device) AS device_idle_nanos
    FROM (
        -- The same operator is called in many contexts.
        SELECT
            process_id,
            device,
            cause,
            activity,
            host_span,
            sum(idle_nanos) AS idle_nanos,
            sum(gap_count) AS gap_count,
            first_value(host_path ORDER BY idle_nanos DESC, host_path) AS host_path
        FROM device_idle
        GROUP BY process_id, device, cause, activity, host_span
    )
    GROUP BY process_id, device, cause, activity
) AS i
JOIN step_summary AS w ON w.process_id = i.process_id
WHERE w.window_nanos > 0 AND 100.0 * i.idle_nanos >= {min_percent} * w.window_nanos
ORDER BY impact_nanos DESC, subject, i.process_id, i.device
LIMIT 5
