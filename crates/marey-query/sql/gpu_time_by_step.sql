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
-- The starts and ends of steps, for every device of the process, divide time into parts. Each row is the part
-- from the previous moment (from far in the past, for the first) to this one.
bounds AS (
    SELECT
        process_id,
        device,
        lag(time_nanos, 1, -4611686018427387904) OVER (
            PARTITION BY process_id, device
            ORDER BY time_nanos
        ) AS time_nanos,
        time_nanos AS part_end
    FROM (
        SELECT DISTINCT
            s.process_id AS process_id,
            d.device AS device,
            s.time_nanos AS time_nanos
        FROM (
            SELECT
                process_id,
                unnest([start_nanos, start_nanos + duration_nanos]) AS time_nanos
            FROM raw.steps
        ) AS s
        INNER JOIN (
            SELECT DISTINCT
                process_id,
                device
            FROM raw.gpu_activities
            WHERE kind IN ('kernel', 'memcpy', 'memset')
        ) AS d ON d.process_id = s.process_id
    ) AS t
),
-- Parts and activities by start. An activity has an end only for its own class; for others it is empty.
events AS (
    SELECT
        process_id,
        device,
        time_nanos,
        part_end,
        time_nanos AS compute_end,
        time_nanos AS communication_end,
        time_nanos AS memory_end
    FROM bounds
    UNION ALL
    SELECT
        a.process_id AS process_id,
        a.device AS device,
        a.start_nanos AS time_nanos,
        NULL AS part_end,
        a.start_nanos + CASE WHEN c.class = 'compute' AND a.kind = 'kernel' THEN a.duration_nanos ELSE 0 END AS compute_end,
        a.start_nanos + CASE WHEN c.class = 'communication' AND a.kind = 'kernel' THEN a.duration_nanos ELSE 0 END AS communication_end,
        a.start_nanos + CASE WHEN c.class = 'memory' OR a.kind <> 'kernel' THEN a.duration_nanos ELSE 0 END AS memory_end
    FROM raw.gpu_activities AS a
    LEFT JOIN classes AS c ON c.name_id = a.name_id
    WHERE
        a.kind IN ('kernel', 'memcpy', 'memset')
        AND a.process_id IN (SELECT DISTINCT process_id FROM raw.steps)
),
-- The part in which each activity begins. At the start of a part, activities that began earlier continue: for
-- each class, until the latest of their ends.
pieces AS (
    SELECT
        process_id,
        device,
        time_nanos,
        max(part_end) OVER line AS part_end,
        CASE WHEN part_end IS NULL THEN compute_end ELSE max(compute_end) OVER line END AS compute_end,
        CASE WHEN part_end IS NULL THEN communication_end ELSE max(communication_end) OVER line END AS communication_end,
        CASE WHEN part_end IS NULL THEN memory_end ELSE max(memory_end) OVER line END AS memory_end
    FROM events
    WINDOW line AS (
        PARTITION BY process_id, device
        ORDER BY time_nanos
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
parts AS (
    SELECT
        process_id,
        device,
        part_end,
        union_nanos(time_nanos, least(compute_end, part_end)) AS compute,
        union_nanos(time_nanos, least(communication_end, part_end)) AS communication,
        union_nanos(time_nanos, least(memory_end, part_end)) AS memory,
        union_nanos(time_nanos, least(greatest(communication_end, memory_end), part_end)) AS not_compute,
        union_nanos(time_nanos, least(greatest(compute_end, memory_end), part_end)) AS not_communication,
        union_nanos(time_nanos, least(greatest(compute_end, communication_end), part_end)) AS not_memory,
        union_nanos(time_nanos, least(greatest(compute_end, communication_end, memory_end), part_end)) AS busy
    FROM pieces
    -- Activities that begin after the last step are in no part.
    WHERE part_end > time_nanos
    GROUP BY process_id, device, part_end
),
-- The totals up to each moment; the value of a step is the difference between its end and its start.
totals AS (
    SELECT
        process_id,
        device,
        part_end AS time_nanos,
        sum(compute) OVER line AS compute,
        sum(communication) OVER line AS communication,
        sum(memory) OVER line AS memory,
        sum(not_compute) OVER line AS not_compute,
        sum(not_communication) OVER line AS not_communication,
        sum(not_memory) OVER line AS not_memory,
        sum(busy) OVER line AS busy
    FROM parts
    WINDOW line AS (
        PARTITION BY process_id, device
        ORDER BY part_end
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
unions AS (
    SELECT
        s.process_id AS process_id,
        s.thread_id AS thread_id,
        s.number AS number,
        s.start_nanos AS start_nanos,
        s.duration_nanos AS duration_nanos,
        t.device AS device,
        max(t.busy) - min(t.busy) AS busy_nanos,
        max(t.compute) - min(t.compute) AS compute_nanos,
        max(t.communication) - min(t.communication) AS communication_nanos,
        max(t.memory) - min(t.memory) AS memory_nanos,
        max(t.not_compute) - min(t.not_compute) AS not_compute_nanos,
        max(t.not_communication) - min(t.not_communication) AS not_communication_nanos,
        max(t.not_memory) - min(t.not_memory) AS not_memory_nanos
    FROM (
        SELECT
            process_id,
            thread_id,
            number,
            start_nanos,
            duration_nanos,
            unnest([start_nanos, start_nanos + duration_nanos]) AS time_nanos
        FROM raw.steps
    ) AS s
    INNER JOIN totals AS t ON t.process_id = s.process_id AND t.time_nanos = s.time_nanos
    GROUP BY s.process_id, s.thread_id, s.number, s.start_nanos, s.duration_nanos, t.device
)
SELECT
    number,
    device,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    busy_nanos,
    duration_nanos - busy_nanos AS idle_nanos,
    compute_nanos,
    busy_nanos - compute_nanos AS non_compute_nanos,
    communication_nanos,
    memory_nanos,
    compute_nanos + communication_nanos - not_memory_nanos AS overlap_nanos,
    not_memory_nanos - compute_nanos AS exposed_communication_nanos,
    busy_nanos - not_compute_nanos AS compute_only_nanos,
    busy_nanos - not_communication_nanos AS communication_only_nanos,
    busy_nanos - not_memory_nanos AS memory_only_nanos,
    CASE WHEN duration_nanos > 0 THEN 100.0 * (duration_nanos - busy_nanos) / duration_nanos END AS idle_percent,
    CASE WHEN duration_nanos > 0 THEN 100.0 * compute_nanos / duration_nanos END AS compute_percent,
    CASE WHEN duration_nanos > 0 THEN 100.0 * (busy_nanos - compute_nanos) / duration_nanos END AS non_compute_percent,
    CASE WHEN communication_nanos > 0 THEN 100.0 * (compute_nanos + communication_nanos - not_memory_nanos) / communication_nanos END AS overlap_percent,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id
FROM unions
