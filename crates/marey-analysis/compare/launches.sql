-- The mean over ranks of what they launched, for each step.
SELECT
    number,
    avg(CAST(count AS DOUBLE)) AS launch_count
FROM (
    SELECT
        process_id,
        number,
        min(start_nanos) AS start_nanos,
        sum(count) AS count
    FROM step_kernels
    GROUP BY process_id, number
)
GROUP BY number
ORDER BY min(start_nanos), number
