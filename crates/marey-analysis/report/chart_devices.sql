SELECT
    rank,
    device,
    window_nanos,
    compute_nanos,
    exposed_communication_nanos,
    memory_only_nanos,
    idle_nanos
FROM gpu_time
ORDER BY rank, device
