WITH activities AS (
    SELECT
        g.process_id AS process_id,
        g.device AS device,
        w.window_nanos AS window_nanos,
        w.divisor AS divisor,
        CASE
            WHEN g.kind = 'kernel' THEN 'kernel'
            WHEN regexp_like(name(g.name_id), 'HtoD|HostToDevice') THEN 'in'
            ELSE 'out'
        END AS class,
        regexp_like(name(g.name_id), 'Pageable') AS is_pageable,
        g.context_id AS context_id,
        g.bytes AS bytes,
        g.start_nanos AS start_nanos,
        g.start_nanos + g.duration_nanos AS end_nanos
    FROM raw.gpu_activities AS g
    JOIN step_summary AS w ON w.process_id = g.process_id
    WHERE g.kind = 'kernel'
        OR (
            g.kind = 'memcpy'
            AND regexp_like(name(g.name_id), 'HtoD|DtoH|HostToDevice|DeviceToHost')
            AND g.start_nanos >= w.first_nanos AND g.start_nanos < w.last_nanos
        )
)
SELECT
    CAST(CASE e.class WHEN 'in' THEN 'host to device' ELSE 'device to host' END AS VARCHAR) AS subject,
    CAST(
        CASE
            WHEN 100.0 * e.exposed_nanos / e.window_nanos > {high_percent} THEN 'high'
            WHEN 100.0 * e.exposed_nanos / e.window_nanos > {medium_percent} THEN 'medium'
            ELSE 'low'
        END AS VARCHAR
    ) AS severity,
    CAST(e.exposed_nanos AS DOUBLE) / e.divisor AS impact_nanos,
    100.0 * e.exposed_nanos / e.window_nanos AS impact_percent,
    CAST(e.exposed_nanos AS DOUBLE) / e.divisor AS gain_nanos,
    CAST('measured' AS VARCHAR) AS confidence,
    rank(e.process_id) AS rank,
    e.process_id AS process_id,
    e.device AS device,
    CAST(e.copy_nanos AS DOUBLE) / e.divisor AS copy_nanos,
    CAST(e.bytes AS DOUBLE) / e.divisor AS copied_bytes,
    CAST(e.pageable_bytes AS DOUBLE) / e.divisor AS pageable_bytes,
    100.0 * e.pageable_count / e.copy_count AS pageable_percent,
    CAST(e.copy_count AS DOUBLE) / e.divisor AS copies_per_step,
    path(e.context_id) AS path
FROM (
    SELECT
        *,
        CASE class WHEN 'in' THEN with_in_nanos ELSE with_out_nanos END - kernel_nanos AS exposed_nanos
    FROM (
        SELECT
            process_id,
            device,
            class,
            max(window_nanos) AS window_nanos,
            max(divisor) AS divisor,
            count(*) AS copy_count,
            union_nanos(start_nanos, end_nanos) AS copy_nanos,
            sum(bytes) AS bytes,
            CASE WHEN count(bytes) > 0 THEN coalesce(sum(bytes) FILTER (WHERE is_pageable), 0) END AS pageable_bytes,
            count(*) FILTER (WHERE is_pageable) AS pageable_count,
            first_value(context_id ORDER BY end_nanos - start_nanos DESC, start_nanos) AS context_id,
            max(kernel_nanos) AS kernel_nanos,
            max(with_in_nanos) AS with_in_nanos,
            max(with_out_nanos) AS with_out_nanos
        FROM (
            SELECT
                *,
                coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class = 'kernel') OVER device, 0) AS kernel_nanos,
                coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class <> 'out') OVER device, 0) AS with_in_nanos,
                coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class <> 'in') OVER device, 0) AS with_out_nanos
            FROM activities
            WINDOW device AS (PARTITION BY process_id, device)
        )
        WHERE class <> 'kernel'
        GROUP BY process_id, device, class
    )
) AS e
WHERE e.window_nanos > 0
    AND e.exposed_nanos > 0
    AND 100.0 * e.exposed_nanos >= {min_percent} * e.window_nanos
ORDER BY impact_nanos DESC, subject, e.process_id, e.device
LIMIT 5
