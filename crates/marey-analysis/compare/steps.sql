-- Of several ranks, the one that a step took longest on: the others waited for it, or would have.
SELECT
    number,
    CAST(max(duration_nanos) AS DOUBLE) AS step_nanos
FROM raw.steps
GROUP BY number
ORDER BY min(start_nanos), number
