SELECT
    rank,
    number,
    duration_nanos,
    between_nanos,
    deviation_nanos,
    robust_z,
    is_outlier
FROM step_times
ORDER BY deviation_nanos DESC, rank, start_nanos
