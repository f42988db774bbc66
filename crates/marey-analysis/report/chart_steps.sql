SELECT
    t.rank AS rank,
    t.number AS number,
    t.start_nanos AS start_nanos,
    t.duration_nanos AS duration_nanos,
    t.is_outlier AS is_outlier,
    avg(g.compute_nanos) AS compute_nanos,
    avg(g.exposed_communication_nanos) AS exposed_communication_nanos,
    avg(g.memory_only_nanos) AS memory_only_nanos,
    avg(g.idle_nanos) AS idle_nanos
FROM step_times AS t
LEFT JOIN gpu_time_by_step AS g ON g.thread_id = t.thread_id AND g.start_nanos = t.start_nanos
GROUP BY t.rank, t.number, t.start_nanos, t.duration_nanos, t.is_outlier, t.thread_id
ORDER BY t.start_nanos, t.rank
