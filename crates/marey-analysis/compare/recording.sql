-- One row: numbers of the whole recording, with or without steps.
SELECT
    (SELECT max(CAST(window_nanos AS DOUBLE)) FROM step_summary) AS total_nanos,
    (SELECT CAST(max(allocated_bytes) AS DOUBLE) FROM raw.memory_events WHERE device IS NOT NULL) AS peak_bytes,
    (SELECT avg(mfu_percent) FROM mfu) AS mfu_percent,
    CAST(sum(busy_nanos) AS DOUBLE) / nullif(sum(window_nanos), 0) AS busy,
    CAST(sum(idle_nanos) AS DOUBLE) / nullif(sum(window_nanos), 0) AS idle,
    CAST(sum(compute_nanos) AS DOUBLE) / nullif(sum(window_nanos), 0) AS compute,
    CAST(sum(memory_nanos) AS DOUBLE) / nullif(sum(window_nanos), 0) AS memory,
    CAST(sum(communication_nanos) AS DOUBLE) / nullif(sum(window_nanos), 0) AS communication,
    CAST(sum(exposed_communication_nanos) AS DOUBLE) / nullif(sum(window_nanos), 0) AS exposed_communication
FROM gpu_time
