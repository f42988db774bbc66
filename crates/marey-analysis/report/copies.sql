SELECT
    name,
    count,
    bytes,
    total_nanos,
    bytes_per_second,
    rank,
    device
FROM gpu_copies
ORDER BY total_nanos DESC, name
