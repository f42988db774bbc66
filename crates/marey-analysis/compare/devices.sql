-- The mean over all devices of all ranks, for each step.
SELECT
    number,
    avg(CAST(duration_nanos AS DOUBLE)) AS duration_nanos,
    avg(CAST(busy_nanos AS DOUBLE)) AS busy_nanos,
    avg(CAST(idle_nanos AS DOUBLE)) AS idle_nanos,
    avg(CAST(compute_nanos AS DOUBLE)) AS compute_nanos,
    avg(CAST(memory_nanos AS DOUBLE)) AS memory_nanos,
    avg(CAST(communication_nanos AS DOUBLE)) AS communication_nanos,
    avg(CAST(exposed_communication_nanos AS DOUBLE)) AS exposed_communication_nanos
FROM gpu_time_by_step
GROUP BY number
ORDER BY min(start_nanos), number
