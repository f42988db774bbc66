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
    -- A collective that is only scheduled has the duration of its call.
    WHERE
        duration_nanos IS NOT NULL
        AND state <> 'scheduled'
        AND coalesce(in_elements, out_elements) IS NOT NULL
    GROUP BY process_id, device, name_id, group_id, group_size, dtype_id, in_elements, out_elements
),
messages AS (
    SELECT
        *,
        replace(lower(name(name_id)), '_', '') AS plain,
        -- The message size by the larger side: the output of a gather, the input of a scatter. For other
        -- collectives both sides are equal.
        CAST(greatest(in_elements, out_elements) * dtype_bytes(name(dtype_id)) AS BIGINT) AS bytes
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
