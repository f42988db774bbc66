SELECT
    name,
    CAST(round(calls) AS BIGINT) AS calls,
    CAST(round(known_calls) AS BIGINT) AS known_calls,
    is_extrapolated,
    count,
    total_nanos,
    flops,
    bytes,
    flops / nullif(bytes, 0) AS arithmetic_intensity,
    1e9 * flops / nullif(total_nanos, 0) AS flops_per_second,
    1e9 * bytes / nullif(total_nanos, 0) AS bytes_per_second,
    100 * compute_nanos / nullif(total_nanos, 0) AS peak_flops_percent,
    100 * memory_nanos / nullif(total_nanos, 0) AS peak_bandwidth_percent,
    flops / nullif(bytes, 0) * memory_nanos / nullif(compute_nanos, 0) AS ridge_point,
    CAST(CASE
        WHEN compute_nanos + memory_nanos > 0 AND compute_nanos >= memory_nanos THEN 'compute'
        WHEN compute_nanos + memory_nanos > 0 THEN 'memory'
    END AS VARCHAR) AS bound,
    device,
    pid,
    rank,
    process_id
FROM (
    SELECT
        operator AS name,
        sum(calls) AS calls,
        sum(known_calls) AS known_calls,
        bool_or(is_extrapolated) AS is_extrapolated,
        sum(count) AS count,
        sum(total_nanos) AS total_nanos,
        sum(flops) AS flops,
        sum(bytes) AS bytes,
        -- If the peak of one data type is unknown, the time at the peaks is unknown.
        CASE WHEN count(compute_nanos) = count(flops) THEN sum(compute_nanos) END AS compute_nanos,
        sum(memory_nanos) AS memory_nanos,
        device,
        pid,
        rank,
        process_id
    FROM kernel_roofline
    GROUP BY operator, device, pid, rank, process_id
)
