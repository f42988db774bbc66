SELECT
    bound,
    sum(duration_nanos) AS total_nanos,
    100.0 * sum(duration_nanos) / sum(sum(duration_nanos)) OVER () AS path_percent,
    count(*) AS count,
    max(duration_nanos) AS longest_nanos
FROM critical_path
-- Beside processes with steps, those without are workers, which mostly wait.
WHERE process_id IN (SELECT process_of(thread_id) FROM raw.steps) OR NOT EXISTS (SELECT 1 FROM raw.steps)
GROUP BY bound
ORDER BY total_nanos DESC, bound
