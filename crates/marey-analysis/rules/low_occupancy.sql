WITH hot AS (
    SELECT
        *,
        100 * CAST(total_nanos AS DOUBLE) / busy_nanos AS device_percent
    FROM internal.kernels_in_steps
    WHERE busy_nanos > 0 AND 100 * CAST(total_nanos AS DOUBLE) / busy_nanos >= {min_time_percent}
),
occupancy AS (
    SELECT
        process_id,
        device,
        name,
        sum(achieved_percent * (total_nanos + 1e-3)) / sum(CASE WHEN achieved_percent IS NOT NULL THEN total_nanos + 1e-3 END)
            AS achieved_percent,
        sum(theoretical_percent * (total_nanos + 1e-3))
            / sum(CASE WHEN theoretical_percent IS NOT NULL THEN total_nanos + 1e-3 END) AS theoretical_percent,
        -- Of the launch shape that took longest.
        first_value(limited_by ORDER BY total_nanos DESC, count DESC) AS limited_by,
        first_value(block ORDER BY total_nanos DESC, count DESC) AS block,
        first_value(registers ORDER BY total_nanos DESC, count DESC) AS registers,
        first_value(shared_bytes ORDER BY total_nanos DESC, count DESC) AS shared_bytes,
        first_value(waves ORDER BY total_nanos DESC, count DESC) AS waves
    FROM kernel_occupancy
    GROUP BY process_id, device, name
)
SELECT
    name AS subject,
    CAST(CASE
        WHEN impact_percent > {high_percent} THEN 'high'
        WHEN impact_percent > {medium_percent} THEN 'medium'
        ELSE 'low'
    END AS VARCHAR) AS severity,
    impact_nanos,
    impact_percent,
    -- As if time fell in proportion to rising occupancy, until the kernel is no longer reported.
    impact_nanos * (1 - achieved_percent / {max_occupancy_percent}) AS gain_nanos,
    CAST('possible' AS VARCHAR) AS confidence,
    rank(process_id) AS rank,
    process_id,
    device,
    device_percent,
    achieved_percent,
    theoretical_percent,
    coalesce(limited_by, 'warps') AS limited_by,
    block,
    registers,
    shared_bytes,
    waves
FROM (
    SELECT
        h.process_id AS process_id,
        h.device AS device,
        h.name AS name,
        h.device_percent AS device_percent,
        CAST(h.total_nanos AS DOUBLE) / h.divisor AS impact_nanos,
        100 * CAST(h.total_nanos AS DOUBLE) / nullif(h.window_nanos, 0) AS impact_percent,
        o.achieved_percent AS achieved_percent,
        o.theoretical_percent AS theoretical_percent,
        o.limited_by AS limited_by,
        o.block AS block,
        o.registers AS registers,
        o.shared_bytes AS shared_bytes,
        o.waves AS waves
    FROM hot AS h
    JOIN occupancy AS o ON o.process_id = h.process_id AND o.device = h.device AND o.name = h.name
    WHERE o.achieved_percent < {max_occupancy_percent}
        -- Communication kernels use few blocks on purpose. Matrix products keep their tiles in registers
        -- and shared memory, and are fast with few warps.
        AND gpu_class('kernel', h.name) = 'compute'
        AND (o.limited_by = 'grid' OR NOT regexp_like(lower(h.name), 'gemm|cudnn|conv|wgrad|dgrad|fprop|flash|fmha|attention|nvjet'))
)
WHERE impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, subject, process_id, device
LIMIT 5
