WITH stepped AS (
    SELECT
        process_id,
        step_count,
        first_nanos,
        last_nanos,
        window_nanos
    FROM step_summary
    WHERE step_count > 0
),
recorded_costs AS (
    SELECT
        c.process_id AS process_id,
        c.context_id AS context_id,
        bool_or(c.is_sampled) AS is_sampled,
        count(*) AS calls,
        count(c.flops) AS known_calls,
        sum(CASE WHEN c.bits = 8 THEN c.flops ELSE 0 END) AS flops_8,
        sum(CASE WHEN c.bits = 16 THEN c.flops ELSE 0 END) AS flops_16,
        sum(CASE WHEN c.bits = 32 THEN c.flops ELSE 0 END) AS flops_32,
        sum(CASE WHEN c.bits = 64 THEN c.flops ELSE 0 END) AS flops_64
    FROM internal.operator_costs AS c
    JOIN stepped AS w ON w.process_id = c.process_id
    WHERE c.start_nanos >= w.first_nanos AND c.start_nanos < w.last_nanos
    GROUP BY c.process_id, c.context_id
),
-- Of a sample, extrapolated to all calls in the context.
costs AS (
    SELECT
        process_id,
        context_id,
        calls,
        known_calls,
        factor > 1 AS is_extrapolated,
        -- Calls that are extrapolated count as covered.
        factor * known_calls AS covered_calls,
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
launched AS (
    SELECT
        process_id,
        step_count,
        window_nanos,
        device,
        context_id,
        total_nanos,
        -- Calls in one context on several devices are divided among the devices in proportion to their time.
        (total_nanos + 1e-3) / sum(total_nanos + 1e-3) OVER (PARTITION BY process_id, context_id) AS share
    FROM (
        SELECT
            process_id,
            step_count,
            window_nanos,
            device,
            context_id,
            sum(total_nanos) AS total_nanos
        FROM (
            SELECT
                g.process_id AS process_id,
                w.step_count AS step_count,
                w.window_nanos AS window_nanos,
                g.device AS device,
                g.context_id AS context_id,
                g.name_id AS name_id,
                sum(g.duration_nanos) AS total_nanos
            FROM raw.gpu_activities AS g
            JOIN stepped AS w ON w.process_id = g.process_id
            WHERE g.kind = 'kernel' AND g.start_nanos >= w.first_nanos AND g.start_nanos < w.last_nanos
            GROUP BY g.process_id, w.step_count, w.window_nanos, g.device, g.context_id, g.name_id
        )
        WHERE gpu_class('kernel', name(name_id)) = 'compute'
        GROUP BY process_id, step_count, window_nanos, device, context_id
    )
)
SELECT
    step_count,
    CAST(window_nanos AS DOUBLE) / step_count AS step_nanos,
    flops / step_count AS flops_per_step,
    1e9 * flops / nullif(window_nanos, 0) AS flops_per_second,
    peak_flops_per_second,
    1e11 * flops / nullif(window_nanos, 0) / peak_flops_per_second AS mfu_percent,
    dtype_bits,
    devices,
    CAST(round(covered_nanos) AS BIGINT) AS covered_nanos,
    device_nanos,
    100 * covered_nanos / nullif(device_nanos, 0) AS covered_percent,
    CAST(concat(
        CASE
            WHEN is_extrapolated THEN 'operator shapes of a sample of the steps, extrapolated'
            ELSE 'operator shapes, as recorded'
        END,
        '; operators without shapes are not counted: ',
        round(covered_nanos / 1e6, 1),
        ' of ',
        round(device_nanos / 1e6, 1),
        ' ms of device time covered'
    ) AS VARCHAR) AS method,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM (
    SELECT
        process_id,
        step_count,
        window_nanos,
        devices,
        device_nanos,
        covered_nanos,
        is_extrapolated,
        dtype_bits,
        CASE WHEN dtype_bits IS NOT NULL THEN flops END AS flops,
        CASE dtype_bits WHEN 8 THEN peak_8 WHEN 16 THEN peak_16 WHEN 32 THEN peak_32 WHEN 64 THEN peak_64 END
            AS peak_flops_per_second
    FROM (
        SELECT
            *,
            flops_8 + flops_16 + flops_32 + flops_64 AS flops,
            CASE
                WHEN known_calls IS NULL OR known_calls = 0 THEN NULL
                WHEN flops_16 >= greatest(flops_8, flops_32, flops_64) THEN 16
                WHEN flops_32 >= greatest(flops_8, flops_64) THEN 32
                WHEN flops_8 >= flops_64 THEN 8
                ELSE 64
            END AS dtype_bits
        FROM (
            SELECT
                u.process_id AS process_id,
                u.step_count AS step_count,
                u.window_nanos AS window_nanos,
                count(*) AS devices,
                sum(u.total_nanos) AS device_nanos,
                sum(u.covered_nanos) AS covered_nanos,
                sum(u.known_calls) AS known_calls,
                bool_or(u.is_extrapolated) AS is_extrapolated,
                sum(u.flops_8) AS flops_8,
                sum(u.flops_16) AS flops_16,
                sum(u.flops_32) AS flops_32,
                sum(u.flops_64) AS flops_64,
                -- If the peak of one device is unknown, the total is unknown.
                CASE WHEN count(peak_flops(d.name, 8)) = count(*) THEN sum(peak_flops(d.name, 8)) END AS peak_8,
                CASE WHEN count(peak_flops(d.name, 16)) = count(*) THEN sum(peak_flops(d.name, 16)) END AS peak_16,
                CASE WHEN count(peak_flops(d.name, 32)) = count(*) THEN sum(peak_flops(d.name, 32)) END AS peak_32,
                CASE WHEN count(peak_flops(d.name, 64)) = count(*) THEN sum(peak_flops(d.name, 64)) END AS peak_64
            FROM (
                SELECT
                    l.process_id AS process_id,
                    l.device AS device,
                    l.step_count AS step_count,
                    l.window_nanos AS window_nanos,
                    sum(l.total_nanos) AS total_nanos,
                    sum(coalesce(CAST(l.total_nanos AS DOUBLE) * k.covered_calls / k.calls, 0)) AS covered_nanos,
                    sum(k.known_calls) AS known_calls,
                    bool_or(coalesce(k.is_extrapolated, FALSE)) AS is_extrapolated,
                    sum(k.flops_8 * l.share) AS flops_8,
                    sum(k.flops_16 * l.share) AS flops_16,
                    sum(k.flops_32 * l.share) AS flops_32,
                    sum(k.flops_64 * l.share) AS flops_64
                FROM launched AS l
                LEFT JOIN costs AS k ON k.process_id = l.process_id AND k.context_id = l.context_id
                GROUP BY l.process_id, l.device, l.step_count, l.window_nanos
            ) AS u
            LEFT JOIN raw.devices AS d ON d.process_id = u.process_id AND d.device = u.device
            GROUP BY u.process_id, u.step_count, u.window_nanos
        )
    )
)
