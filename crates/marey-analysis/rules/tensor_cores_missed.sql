WITH missed AS (
    SELECT
        process_id,
        device,
        divisor,
        window_nanos,
        operation,
        sum(count) AS count,
        count(*) AS kernel_names,
        sum(total_nanos) AS total_nanos,
        max(busy_nanos) AS busy_nanos,
        first_value(name ORDER BY total_nanos DESC, name) AS name
    FROM (
        SELECT
            *,
            CASE
                WHEN regexp_like(lower(name), 'cudnn|conv|wgrad|dgrad|fprop|winograd') THEN 'convolution'
                ELSE 'matrix product'
            END AS operation
        FROM internal.kernels_in_steps
        -- Kernels of single and half precision for matrix products and convolutions.
        WHERE regexp_like(lower(name), 'gemm|[sh]cudnn|implicit_convolve|winograd|[dw]grad_engine')
            -- Not other types, vectors, Fourier transforms and depthwise convolutions.
            AND NOT regexp_like(lower(name), '[dczi]gemm|gemv|double|int8|i8i8|fft|depthwise|f64')
            -- Not tensor core instructions, as cuBLAS, cuDNN and CUTLASS name them.
            AND NOT regexp_like(lower(name), 'tensorop|tensor[0-9]|16816|1688|884|[^x]mma|^mma|warpgroup|tf32|tfloat32|bf16|fp8|e4m3|e5m2')
    )
    GROUP BY process_id, device, divisor, window_nanos, operation
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
    -- The ratio of the published peaks of half precision and of single precision without tensor cores.
    impact_nanos * (1 - 1 / CASE
        WHEN major = 8 AND minor > 0 THEN 4.0
        WHEN major >= 11 THEN 4.0
        ELSE 8.0
    END) AS gain_nanos,
    CAST('possible' AS VARCHAR) AS confidence,
    rank(process_id) AS rank,
    process_id,
    device,
    device_percent,
    CAST(operation AS VARCHAR) AS operation,
    count,
    kernel_names,
    CAST(concat(major, '.', minor) AS VARCHAR) AS compute_capability
FROM (
    SELECT
        m.process_id AS process_id,
        m.device AS device,
        m.operation AS operation,
        m.name AS name,
        m.count AS count,
        m.kernel_names AS kernel_names,
        CAST(m.total_nanos AS DOUBLE) / m.divisor AS impact_nanos,
        100 * CAST(m.total_nanos AS DOUBLE) / nullif(m.window_nanos, 0) AS impact_percent,
        100 * CAST(m.total_nanos AS DOUBLE) / nullif(m.busy_nanos, 0) AS device_percent,
        TRY_CAST(arg(d.properties, 'computeMajor') AS BIGINT) AS major,
        TRY_CAST(arg(d.properties, 'computeMinor') AS BIGINT) AS minor
    FROM missed AS m
    JOIN raw.devices AS d ON d.process_id = m.process_id AND d.device = m.device
    WHERE d.type = 'CUDA'
)
WHERE major >= 7 AND device_percent >= {min_time_percent} AND impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, subject, process_id, device
LIMIT 5
