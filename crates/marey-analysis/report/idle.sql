SELECT
    cause,
    activity,
    host_span,
    sum(idle_nanos) AS idle_nanos,
    100.0 * sum(idle_nanos) / sum(sum(idle_nanos)) OVER () AS idle_percent,
    sum(gap_count) AS gap_count
FROM device_idle
GROUP BY cause, activity, host_span
ORDER BY idle_nanos DESC, cause, host_span
