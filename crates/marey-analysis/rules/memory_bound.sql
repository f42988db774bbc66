WITH families AS (
    SELECT
        process_id,
        device,
        divisor,
        window_nanos,
        family,
        sum(count) AS count,
        count(*) AS kernel_names,
        sum(total_nanos) AS total_nanos,
        max(busy_nanos) AS busy_nanos,
        first_value(name ORDER BY total_nanos DESC, name) AS longest_kernel
    FROM (
        SELECT
            *,
            -- Kernels with few operations per byte, by the names that PyTorch, cuDNN, Apex and Inductor
            -- give them. Kernels over lists of tensors are fused already.
            CASE
                WHEN regexp_like(lower(name), 'multi_tensor_apply|gemm|conv2d|wgrad|dgrad_|fprop|attention') THEN NULL
                WHEN regexp_like(lower(name), 'softmax') THEN 'softmax'
                WHEN regexp_like(lower(name), 'layer_?norm|batch_?norm|group_?norm|rms_?norm|bn_fw|bn_bw') THEN 'normalization'
                WHEN regexp_like(lower(name), 'direct_copy|batchedcopy|copy_kernel|tonhwc|tonchw|transpose|permute') THEN 'copy'
                WHEN regexp_like(lower(name), 'elementwise|pointwise|dropout|^triton_poi') THEN 'elementwise'
                WHEN regexp_like(lower(name), 'native::reduce_kernel|devicereduce|row_?reduce|^triton_(red|per)') THEN 'reduction'
            END AS family
        FROM internal.kernels_in_steps
    )
    WHERE family IS NOT NULL
    GROUP BY process_id, device, divisor, window_nanos, family
)
SELECT
    CAST(concat(family, ' kernels') AS VARCHAR) AS subject,
    CAST(CASE
        WHEN impact_percent > {high_percent} THEN 'high'
        WHEN impact_percent > {medium_percent} THEN 'medium'
        ELSE 'low'
    END AS VARCHAR) AS severity,
    impact_nanos,
    impact_percent,
    -- Two fused kernels read and write memory once instead of twice.
    impact_nanos / 2 AS gain_nanos,
    CAST('likely' AS VARCHAR) AS confidence,
    rank(process_id) AS rank,
    process_id,
    device,
    device_percent,
    count,
    kernel_names,
    mean_nanos,
    longest_kernel
FROM (
    SELECT
        f.process_id AS process_id,
        f.device AS device,
        f.family AS family,
        f.count AS count,
        f.kernel_names AS kernel_names,
        f.longest_kernel AS longest_kernel,
        CAST(f.total_nanos AS DOUBLE) / f.count AS mean_nanos,
        CAST(f.total_nanos AS DOUBLE) / f.divisor AS impact_nanos,
        100 * CAST(f.total_nanos AS DOUBLE) / nullif(f.window_nanos, 0) AS impact_percent,
        100 * CAST(f.total_nanos AS DOUBLE) / nullif(f.busy_nanos, 0) AS device_percent
    FROM families AS f
)
WHERE device_percent >= {min_time_percent} AND impact_percent >= {min_percent}
ORDER BY impact_nanos DESC, subject, process_id, device
LIMIT 5
