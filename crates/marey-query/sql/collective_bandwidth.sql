WITH sizes AS (
    SELECT
        process_id,
        device,
        name_id,
        group_id,
        group_size,
        dtype_id,
        in_elements,
        out_elements,
        count(*) AS count,
        sum(duration_nanos) AS total_nanos,
        min(duration_nanos) AS min_nanos,
        max(duration_nanos) AS max_nanos
    FROM raw.collectives
    WHERE duration_nanos IS NOT NULL AND coalesce(in_elements, out_elements) IS NOT NULL
    GROUP BY process_id, device, name_id, group_id, group_size, dtype_id, in_elements, out_elements
),
messages AS (
    SELECT
        *,
        replace(lower(name(name_id)), '_', '') AS plain,
        -- The message size by the larger side: the output of a gather, the input of a scatter. For other
        -- collectives both sides are equal.
        greatest(in_elements, out_elements) * CASE replace(replace(lower(name(dtype_id)), 'torch.', ''), 'c10::', '')
            WHEN 'float' THEN 4
            WHEN 'float32' THEN 4
            WHEN 'half' THEN 2
            WHEN 'float16' THEN 2
            WHEN 'bfloat16' THEN 2
            WHEN 'double' THEN 8
            WHEN 'float64' THEN 8
            WHEN 'long' THEN 8
            WHEN 'int64' THEN 8
            WHEN 'int' THEN 4
            WHEN 'int32' THEN 4
            WHEN 'uint32' THEN 4
            WHEN 'uint64' THEN 8
            WHEN 'short' THEN 2
            WHEN 'int16' THEN 2
            WHEN 'uint16' THEN 2
            WHEN 'byte' THEN 1
            WHEN 'uint8' THEN 1
            WHEN 'char' THEN 1
            WHEN 'int8' THEN 1
            WHEN 'bool' THEN 1
            WHEN 'float8_e4m3fn' THEN 1
            WHEN 'float8_e4m3fnuz' THEN 1
            WHEN 'float8_e5m2' THEN 1
            WHEN 'float8_e5m2fnuz' THEN 1
            WHEN 'float8_e8m0fnu' THEN 1
            WHEN 'complexhalf' THEN 4
            WHEN 'complexfloat' THEN 8
            WHEN 'complex64' THEN 8
            WHEN 'complexdouble' THEN 16
            WHEN 'complex128' THEN 16
        END AS bytes
    FROM sizes
),
factors AS (
    SELECT
        *,
        -- The share of a message that the link of each rank carries at least, as defined by nccl-tests.
        CASE
            WHEN plain LIKE '%allreduce%' THEN 2 * (group_size - CAST(1 AS DOUBLE)) / nullif(group_size, 0)
            WHEN plain LIKE '%allgather%' OR plain LIKE '%reducescatter%' OR plain LIKE '%alltoall%'
                OR plain LIKE '%gather%' OR plain LIKE '%scatter%'
                THEN (group_size - CAST(1 AS DOUBLE)) / nullif(group_size, 0)
            WHEN plain LIKE '%broadcast%' OR plain LIKE '%reduce%' OR plain LIKE '%send%' OR plain LIKE '%recv%' THEN 1.0
        END AS bus_factor
    FROM messages
    WHERE plain NOT LIKE '%barrier%'
)
SELECT
    name(name_id) AS name,
    name(group_id) AS process_group,
    group_size,
    name(dtype_id) AS dtype,
    bytes,
    count,
    total_nanos,
    CAST(total_nanos AS DOUBLE) / count AS mean_nanos,
    min_nanos,
    max_nanos,
    1e9 * bytes * count / nullif(total_nanos, 0) AS algorithm_bytes_per_second,
    1e9 * bytes * count / nullif(total_nanos, 0) * bus_factor AS bus_bytes_per_second,
    1e9 * bytes / nullif(min_nanos, 0) * bus_factor AS max_bus_bytes_per_second,
    bus_factor,
    device,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM factors
WHERE bytes IS NOT NULL
