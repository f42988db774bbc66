-- Some 500 points per device, and 2,500 in total: the maximum of the allocated bytes in each time interval.
WITH events AS (
    SELECT
        process_id,
        device,
        time_nanos,
        allocated_bytes
    FROM raw.memory_events
    WHERE device IS NOT NULL AND allocated_bytes IS NOT NULL
),
stretches AS (
    SELECT
        greatest(max(last_nanos - first_nanos) / greatest(2500 / greatest(count(*), 5), 1), 1) AS stretch_nanos
    FROM (
        SELECT
            process_id,
            device,
            min(time_nanos) AS first_nanos,
            max(time_nanos) AS last_nanos
        FROM events
        GROUP BY process_id, device
    )
)
SELECT
    rank(process_id) AS rank,
    device,
    min(time_nanos) AS time_nanos,
    max(allocated_bytes) AS allocated_bytes
FROM events
CROSS JOIN stretches
GROUP BY process_id, device, time_nanos / stretch_nanos
ORDER BY rank, device, time_nanos
