-- The median of the deviations; and their mean, for processes in which more than half of the steps are equal and
-- the median is 0.
WITH medians AS (
    SELECT
        process_id,
        median(CAST(duration_nanos AS DOUBLE)) AS median_nanos
    FROM raw.steps
    GROUP BY process_id
),
spreads AS (
    SELECT
        m.process_id AS process_id,
        max(m.median_nanos) AS median_nanos,
        median(abs(s.duration_nanos - m.median_nanos)) AS median_deviation_nanos,
        avg(abs(s.duration_nanos - m.median_nanos)) AS mean_deviation_nanos
    FROM raw.steps AS s
    JOIN medians AS m ON m.process_id = s.process_id
    GROUP BY m.process_id
),
timed AS (
    SELECT
        number,
        start_nanos,
        duration_nanos,
        start_nanos - lag(start_nanos + duration_nanos) OVER (
            PARTITION BY process_id
            ORDER BY start_nanos, number, thread_id
        ) AS between_nanos,
        process_id,
        thread_id,
        context_id
    FROM raw.steps
),
spread AS (
    SELECT
        t.*,
        s.median_nanos AS median_nanos,
        t.duration_nanos - s.median_nanos AS deviation_nanos,
        s.median_deviation_nanos AS median_deviation_nanos,
        s.mean_deviation_nanos AS mean_deviation_nanos
    FROM timed AS t
    JOIN spreads AS s ON s.process_id = t.process_id
),
-- The factors scale each spread to the standard deviation of a normal distribution: 0.6745 for the median, and
-- sqrt(pi / 2) = 1.253314 for the mean.
scored AS (
    SELECT
        *,
        CASE
            WHEN median_deviation_nanos > 0 THEN 0.6745 * deviation_nanos / median_deviation_nanos
            WHEN mean_deviation_nanos > 0 THEN deviation_nanos / (1.253314 * mean_deviation_nanos)
            ELSE 0.0
        END AS robust_z
    FROM spread
)
SELECT
    number,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    between_nanos,
    median_nanos,
    deviation_nanos,
    robust_z,
    robust_z > 3.5 AND deviation_nanos > 0.05 * median_nanos AS is_outlier,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id,
    context_id
FROM scored
