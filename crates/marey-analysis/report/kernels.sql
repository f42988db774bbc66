SELECT
    name,
    class,
    sum(count) AS count,
    sum(total_nanos) AS total_nanos,
    CAST(sum(total_nanos) AS DOUBLE) / sum(count) AS mean_nanos,
    max(max_nanos) AS max_nanos,
    100.0 * sum(total_nanos) / sum(sum(total_nanos)) OVER () AS kernel_percent
FROM kernel_summary
GROUP BY name, class
ORDER BY total_nanos DESC, name
