-- Of several ranks, the longest duration of a step: the other ranks wait for that rank.
SELECT
    number,
    CAST(max(duration_nanos) AS DOUBLE) AS step_nanos
FROM raw.steps
GROUP BY number
ORDER BY min(start_nanos), number
