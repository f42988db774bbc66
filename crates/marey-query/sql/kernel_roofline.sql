-- Whether the activities of a process have the external ids of the operator calls that launched them.
WITH named AS (
    SELECT
        process_id,
        bool_or(external_id > 0) AS has_ids
    FROM raw.gpu_activities
    WHERE kind IN ('kernel', 'memcpy', 'memset') AND context_id IS NOT NULL
    GROUP BY process_id
),
launched AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        g.context_id AS context_id,
        CASE WHEN n.has_ids THEN coalesce(g.external_id, CAST(0 AS BIGINT UNSIGNED)) ELSE CAST(0 AS BIGINT UNSIGNED) END AS call_id,
        g.name_id AS name_id,
        count(*) AS count,
        sum(g.duration_nanos) AS total_nanos
    FROM raw.gpu_activities AS g
    JOIN named AS n ON n.process_id = g.process_id
    WHERE g.kind IN ('kernel', 'memcpy', 'memset') AND g.context_id IS NOT NULL
    GROUP BY
        g.process_id,
        g.device,
        g.context_id,
        CASE WHEN n.has_ids THEN coalesce(g.external_id, CAST(0 AS BIGINT UNSIGNED)) ELSE CAST(0 AS BIGINT UNSIGNED) END,
        g.name_id
),
recorded_costs AS (
    SELECT
        process_id,
        context_id,
        call_id,
        bool_or(is_sampled) AS is_sampled,
        count(*) AS calls,
        sum(CASE WHEN is_known THEN 1 ELSE 0 END) AS known_calls,
        sum(CASE WHEN is_known THEN flops END) AS flops,
        sum(CASE WHEN is_known THEN bytes END) AS bytes,
        sum(CASE WHEN is_known AND bits = 8 THEN flops ELSE 0 END) AS flops_8,
        sum(CASE WHEN is_known AND bits = 16 THEN flops ELSE 0 END) AS flops_16,
        sum(CASE WHEN is_known AND bits = 32 THEN flops ELSE 0 END) AS flops_32,
        sum(CASE WHEN is_known AND bits = 64 THEN flops ELSE 0 END) AS flops_64
    FROM (
        SELECT
            c.*,
            CASE WHEN n.has_ids THEN coalesce(c.external_id, CAST(0 AS BIGINT UNSIGNED)) ELSE CAST(0 AS BIGINT UNSIGNED) END AS call_id,
            c.flops IS NOT NULL AND c.bytes IS NOT NULL AS is_known
        FROM internal.operator_costs AS c
        JOIN named AS n ON n.process_id = c.process_id
    )
    GROUP BY process_id, context_id, call_id
),
-- Of a sample, extrapolated to all calls in the context.
costs AS (
    SELECT
        process_id,
        context_id,
        call_id,
        calls,
        known_calls,
        factor > 1 AS is_extrapolated,
        factor * flops AS flops,
        factor * bytes AS bytes,
        factor * flops_8 AS flops_8,
        factor * flops_16 AS flops_16,
        factor * flops_32 AS flops_32,
        factor * flops_64 AS flops_64
    FROM (
        SELECT
            *,
            CASE WHEN is_sampled AND known_calls > 0 THEN CAST(calls AS DOUBLE) / known_calls ELSE 1.0 END AS factor
        FROM recorded_costs
    )
),
operators AS (
    SELECT
        l.process_id AS process_id,
        l.device AS device,
        c.name_id AS operator_id,
        l.name_id AS name_id,
        sum(k.calls * l.share) AS calls,
        sum(k.known_calls * l.share) AS known_calls,
        bool_or(coalesce(k.is_extrapolated, FALSE)) AS is_extrapolated,
        sum(l.count) AS count,
        sum(l.total_nanos) AS total_nanos,
        sum(k.flops * l.share) AS flops,
        sum(k.bytes * l.share) AS bytes,
        sum(k.flops_8 * l.share) AS flops_8,
        sum(k.flops_16 * l.share) AS flops_16,
        sum(k.flops_32 * l.share) AS flops_32,
        sum(k.flops_64 * l.share) AS flops_64
    FROM (
        SELECT
            *,
            -- The cost of a call is divided among all activities that it launched, on all devices, in proportion to
            -- their time; where calls are unknown, the cost of all calls in the context.
            (total_nanos + 1e-3) / sum(total_nanos + 1e-3) OVER (PARTITION BY process_id, context_id, call_id) AS share
        FROM launched
    ) AS l
    JOIN raw.contexts AS c ON c.id = l.context_id
    LEFT JOIN costs AS k ON k.process_id = l.process_id AND k.context_id = l.context_id AND k.call_id = l.call_id
    GROUP BY l.process_id, l.device, c.name_id, l.name_id
),
-- The times at the peak rates, which no kernel on the device can beat.
peaks AS (
    SELECT
        o.*,
        CASE
            WHEN o.flops IS NOT NULL
                THEN
                    CASE WHEN o.flops_8 > 0 THEN 1e9 * o.flops_8 / peak_flops(d.name, 8) ELSE 0 END
                    + CASE WHEN o.flops_16 > 0 THEN 1e9 * o.flops_16 / peak_flops(d.name, 16) ELSE 0 END
                    + CASE WHEN o.flops_32 > 0 THEN 1e9 * o.flops_32 / peak_flops(d.name, 32) ELSE 0 END
                    + CASE WHEN o.flops_64 > 0 THEN 1e9 * o.flops_64 / peak_flops(d.name, 64) ELSE 0 END
        END AS compute_nanos,
        1e9 * o.bytes / peak_bytes_per_second(d.name) AS memory_nanos
    FROM operators AS o
    LEFT JOIN raw.devices AS d ON d.process_id = o.process_id AND d.device = o.device
)
SELECT
    name(name_id) AS name,
    name(operator_id) AS operator,
    calls,
    known_calls,
    is_extrapolated,
    count,
    total_nanos,
    flops,
    bytes,
    compute_nanos,
    memory_nanos,
    flops / nullif(bytes, 0) AS arithmetic_intensity,
    1e9 * flops / nullif(total_nanos, 0) AS flops_per_second,
    1e9 * bytes / nullif(total_nanos, 0) AS bytes_per_second,
    100 * compute_nanos / nullif(total_nanos, 0) AS peak_flops_percent,
    100 * memory_nanos / nullif(total_nanos, 0) AS peak_bandwidth_percent,
    -- The intensity at which compute and memory take equally long at their peaks.
    flops / nullif(bytes, 0) * memory_nanos / nullif(compute_nanos, 0) AS ridge_point,
    CAST(CASE
        WHEN compute_nanos + memory_nanos > 0 AND compute_nanos >= memory_nanos THEN 'compute'
        WHEN compute_nanos + memory_nanos > 0 THEN 'memory'
    END AS VARCHAR) AS bound,
    device,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM peaks
