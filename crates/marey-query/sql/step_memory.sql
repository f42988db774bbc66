-- The events at which the allocator reported its total. A peak that has risen since the previous report was reached
-- in between.
WITH events AS (
    SELECT
        time_nanos,
        process_id,
        device_type,
        device,
        allocated_bytes,
        reserved_bytes,
        greatest(
            allocated_bytes,
            CASE WHEN peak_bytes > lag(peak_bytes) IGNORE NULLS OVER memory THEN peak_bytes END
        ) AS peak_bytes
    FROM raw.memory_events
    WHERE
        allocated_bytes IS NOT NULL
        AND process_id IN (SELECT DISTINCT process_id FROM raw.steps)
    WINDOW memory AS (PARTITION BY process_id, device_type, device ORDER BY time_nanos)
),
-- The starts and ends of steps, for each memory of the process, divide time into parts. Each row is the part from
-- the previous moment (from far in the past, for the first) to this one.
bounds AS (
    SELECT
        process_id,
        thread_id,
        device_type,
        device,
        lag(time_nanos, 1, -4611686018427387904) OVER (
            PARTITION BY process_id, thread_id, device_type, device
            ORDER BY time_nanos
        ) AS time_nanos,
        time_nanos AS part_end
    FROM (
        SELECT DISTINCT
            s.process_id AS process_id,
            s.thread_id AS thread_id,
            m.device_type AS device_type,
            m.device AS device,
            s.time_nanos AS time_nanos
        FROM (
            SELECT
                process_id,
                thread_id,
                unnest([start_nanos, start_nanos + duration_nanos]) AS time_nanos
            FROM raw.steps
        ) AS s
        INNER JOIN (
            SELECT DISTINCT
                process_id,
                device_type,
                device
            FROM events
        ) AS m ON m.process_id = s.process_id
    ) AS t
),
-- The part of each event: an event at a boundary belongs to the part that begins there.
events_by_part AS (
    SELECT
        process_id,
        thread_id,
        device_type,
        device,
        time_nanos,
        allocated_bytes,
        reserved_bytes,
        peak_bytes,
        max(part_end) OVER (
            PARTITION BY process_id, thread_id, device_type, device
            ORDER BY time_nanos
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS part_end
    FROM (
        SELECT
            process_id,
            thread_id,
            device_type,
            device,
            time_nanos,
            part_end,
            NULL AS allocated_bytes,
            NULL AS reserved_bytes,
            NULL AS peak_bytes
        FROM bounds
        UNION ALL
        SELECT
            e.process_id AS process_id,
            t.thread_id AS thread_id,
            e.device_type AS device_type,
            e.device AS device,
            e.time_nanos AS time_nanos,
            NULL AS part_end,
            e.allocated_bytes AS allocated_bytes,
            e.reserved_bytes AS reserved_bytes,
            e.peak_bytes AS peak_bytes
        FROM events AS e
        INNER JOIN (
            SELECT DISTINCT
                process_id,
                thread_id
            FROM raw.steps
        ) AS t ON t.process_id = e.process_id
    ) AS line
),
parts AS (
    SELECT
        process_id,
        thread_id,
        device_type,
        device,
        part_end,
        last_value(allocated_bytes ORDER BY time_nanos, allocated_bytes)
            FILTER (WHERE allocated_bytes IS NOT NULL) AS allocated_bytes,
        last_value(reserved_bytes ORDER BY time_nanos, allocated_bytes)
            FILTER (WHERE allocated_bytes IS NOT NULL) AS reserved_bytes,
        max(peak_bytes) AS peak_bytes
    FROM events_by_part
    -- Events after the last step are in no part.
    WHERE part_end > time_nanos
    GROUP BY process_id, thread_id, device_type, device, part_end
),
-- A part without events keeps the values at the end of the previous part.
runs AS (
    SELECT
        *,
        count(allocated_bytes) OVER (
            PARTITION BY process_id, thread_id, device_type, device
            ORDER BY part_end
        ) AS run
    FROM parts
),
carried AS (
    SELECT
        process_id,
        thread_id,
        device_type,
        device,
        part_end,
        peak_bytes,
        max(allocated_bytes) OVER run AS allocated_bytes,
        max(reserved_bytes) OVER run AS reserved_bytes
    FROM runs
    WINDOW run AS (PARTITION BY process_id, thread_id, device_type, device, run)
),
ends AS (
    SELECT
        *,
        greatest(coalesce(peak_bytes, allocated_bytes), coalesce(before_bytes, allocated_bytes)) AS most_bytes
    FROM (
        SELECT
            *,
            lag(allocated_bytes) OVER memory AS before_bytes,
            lag(reserved_bytes) OVER memory AS reserved_before_bytes
        FROM carried
        WINDOW memory AS (PARTITION BY process_id, thread_id, device_type, device ORDER BY part_end)
    ) AS c
)
SELECT
    s.number AS number,
    s.start_nanos AS start_nanos,
    s.start_nanos + s.duration_nanos AS end_nanos,
    s.duration_nanos AS duration_nanos,
    e.device_type AS device_type,
    e.device AS device,
    e.allocated_bytes AS allocated_bytes,
    CASE WHEN s.duration_nanos > 0 THEN e.most_bytes ELSE e.allocated_bytes END AS peak_bytes,
    e.reserved_bytes AS reserved_bytes,
    CASE WHEN s.duration_nanos > 0 THEN e.allocated_bytes - e.before_bytes ELSE 0 END AS change_bytes,
    CASE WHEN s.duration_nanos > 0 THEN e.most_bytes - e.before_bytes ELSE 0 END AS peak_change_bytes,
    CASE WHEN s.duration_nanos > 0 THEN e.reserved_bytes - e.reserved_before_bytes ELSE e.reserved_bytes - e.reserved_bytes END AS reserved_change_bytes,
    thread_name(s.thread_id) AS thread,
    pid(s.process_id) AS pid,
    rank(s.process_id) AS rank,
    s.process_id AS process_id,
    s.thread_id AS thread_id
FROM raw.steps AS s
INNER JOIN ends AS e ON
    e.process_id = s.process_id
    AND e.thread_id = s.thread_id
    AND e.part_end = s.start_nanos + s.duration_nanos
WHERE e.allocated_bytes IS NOT NULL
