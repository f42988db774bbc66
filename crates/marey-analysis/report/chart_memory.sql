-- At most 500 points a device: the highest of what was allocated in each stretch of time.
WITH events AS (
    SELECT
        process_id,
        device,
        time_nanos,
        allocated_bytes,
        greatest((max(time_nanos) OVER () - min(time_nanos) OVER ()) / 500, 1) AS stretch_nanos
    FROM raw.memory_events
    WHERE device IS NOT NULL AND allocated_bytes IS NOT NULL
)
SELECT
    rank(process_id) AS rank,
    device,
    min(time_nanos) AS time_nanos,
    max(allocated_bytes) AS allocated_bytes
FROM events
GROUP BY process_id, device, time_nanos / stretch_nanos
ORDER BY rank, device, time_nanos
