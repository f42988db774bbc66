-- The class of each kernel by its function name, ignoring argument types, and the operators that Inductor
-- names its kernels after. Kernels of the HIP runtime that copy and fill count as memory.
WITH classes AS (
    SELECT
        name_id,
        gpu_class('kernel', name(name_id)) AS class
    FROM raw.gpu_activities
    WHERE kind = 'kernel'
    GROUP BY name_id
),
activities AS (
    SELECT
        a.process_id AS process_id,
        a.device AS device,
        a.start_nanos AS start_nanos,
        a.start_nanos + a.duration_nanos AS end_nanos,
        CASE WHEN a.kind = 'kernel' THEN c.class ELSE 'memory' END AS class
    FROM raw.gpu_activities AS a
    LEFT JOIN classes AS c ON c.name_id = a.name_id
    WHERE a.kind IN ('kernel', 'memcpy', 'memset')
),
unions AS (
    SELECT
        process_id,
        device,
        min(start_nanos) AS start_nanos,
        max(end_nanos) AS end_nanos,
        max(end_nanos) - min(start_nanos) AS window_nanos,
        coalesce(union_nanos(start_nanos, end_nanos), 0) AS busy_nanos,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class = 'compute'), 0) AS compute_nanos,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class = 'communication'), 0) AS communication_nanos,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class = 'memory'), 0) AS memory_nanos,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class <> 'compute'), 0) AS not_compute_nanos,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class <> 'communication'), 0) AS not_communication_nanos,
        coalesce(union_nanos(start_nanos, end_nanos) FILTER (WHERE class <> 'memory'), 0) AS not_memory_nanos
    FROM activities
    GROUP BY process_id, device
)
SELECT
    device,
    start_nanos,
    end_nanos,
    window_nanos,
    busy_nanos,
    window_nanos - busy_nanos AS idle_nanos,
    compute_nanos,
    busy_nanos - compute_nanos AS non_compute_nanos,
    communication_nanos,
    memory_nanos,
    compute_nanos + communication_nanos - not_memory_nanos AS overlap_nanos,
    not_memory_nanos - compute_nanos AS exposed_communication_nanos,
    busy_nanos - not_compute_nanos AS compute_only_nanos,
    busy_nanos - not_communication_nanos AS communication_only_nanos,
    busy_nanos - not_memory_nanos AS memory_only_nanos,
    CASE WHEN window_nanos > 0 THEN 100.0 * (window_nanos - busy_nanos) / window_nanos END AS idle_percent,
    CASE WHEN window_nanos > 0 THEN 100.0 * compute_nanos / window_nanos END AS compute_percent,
    CASE WHEN window_nanos > 0 THEN 100.0 * (busy_nanos - compute_nanos) / window_nanos END AS non_compute_percent,
    CASE WHEN communication_nanos > 0 THEN 100.0 * (compute_nanos + communication_nanos - not_memory_nanos) / communication_nanos END AS overlap_percent,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM unions
