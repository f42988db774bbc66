SELECT
    device,
    stream,
    max(length) AS max_length,
    sum(CAST(length AS DOUBLE) * duration_nanos) / sum(duration_nanos) AS mean_length,
    CAST(coalesce(sum(duration_nanos), 0) AS BIGINT) AS duration_nanos,
    CAST(coalesce(sum(duration_nanos) FILTER (WHERE length > 0), 0) AS BIGINT) AS queued_nanos,
    CAST(coalesce(sum(duration_nanos) FILTER (WHERE length >= 1024), 0) AS BIGINT) AS full_nanos,
    100.0 * coalesce(sum(duration_nanos) FILTER (WHERE length >= 1024), 0) / sum(duration_nanos) AS full_percent,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM queue_length
GROUP BY process_id, device, stream
