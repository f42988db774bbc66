SELECT
    rank,
    device,
    window_nanos,
    busy_nanos,
    idle_percent,
    compute_percent,
    non_compute_percent,
    communication_nanos,
    exposed_communication_nanos,
    overlap_percent,
    memory_only_nanos
FROM gpu_time
ORDER BY rank, device
